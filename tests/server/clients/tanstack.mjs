// Plays a conversation with TanStack AI's client and prints what it came to as JSON.
// Arguments: the address of an agent, and {say: [...], answer, cutAfter}.
import { ChatClient, fetchServerSentEvents } from "@tanstack/ai-client";

const [url, given] = process.argv.slice(2);
const plan = JSON.parse(given);
const requests = [];
let cuts = plan.cutAfter ? 1 : 0;

/** A network that breaks the first answer after so many bytes. */
async function fetchClient(input, init) {
  const response = await fetch(input, init);
  const id = new Headers(init?.headers).get("last-event-id");
  requests.push({ method: init?.method ?? "GET", body: init?.body ? JSON.parse(init.body) : null, lastEventId: id });
  if (!cuts || !response.body) return response;
  cuts -= 1;
  let left = plan.cutAfter;
  const cut = new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk.slice(0, left));
      left -= chunk.length;
      if (left <= 0) controller.terminate();
    },
  });
  return new Response(response.body.pipeThrough(cut), { status: response.status, headers: response.headers });
}

const types = [];
let error = null;
const client = new ChatClient({
  connection: fetchServerSentEvents(url, { fetchClient, headers: plan.headers ?? {} }),
  onChunk: (chunk) => types.push(chunk.type),
  onError: (failed) => { error = String(failed.message); },
});
const asked = [];
for (const text of plan.say) {
  await client.sendMessage(text);
  for (let tries = 0; tries < 100 && client.getPendingInterrupts().length; tries += 1) {
    const open = client.getPendingInterrupts();
    if (!asked.some((one) => one.id === open[0].id)) {
      for (const one of open) {
        asked.push({ id: one.id, kind: one.kind });
        one.resolveInterrupt(plan.answer);
      }
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}
for (let tries = 0; tries < 100 && client.getIsLoading?.(); tries += 1) await new Promise((done) => setTimeout(done, 50));
console.log(JSON.stringify({ types, error, asked, requests, messages: client.getMessages() }));
process.exit(0);
