// Plays turns with AG-UI's own client, its event verification on, and prints what it came to as JSON.
// Arguments: the address of an agent, and a list of turns: {say, resume, abortOn, tools, headers}.
import { HttpAgent } from "@ag-ui/client";

const [url, plan] = process.argv.slice(2);
const agent = new HttpAgent({ url, threadId: "thread-1", headers: JSON.parse(plan).headers ?? {} });
const turns = [];
for (const turn of JSON.parse(plan).turns) {
  const types = [];
  let error = null;
  if (turn.say) agent.addMessage({ id: `u-${turns.length}`, role: "user", content: turn.say });
  for (const result of turn.results ?? []) {
    const call = agent.messages.flatMap((one) => one.toolCalls ?? []).find((one) => one.function.name === result.name);
    agent.addMessage({ id: `tool-${turns.length}`, role: "tool", toolCallId: call.id, content: result.content });
  }
  const resume = turn.resume && agent.pendingInterrupts.map((one) => ({ interruptId: one.id, ...turn.resume }));
  try {
    await agent.runAgent({ runId: `run-${turns.length}`, ...(resume && { resume }), ...(turn.tools && { tools: turn.tools }) }, {
      onEvent({ event }) {
        types.push(event.type);
        if (event.type === turn.abortOn) agent.abortRun();
      },
      onRunFailed({ error: failed }) { error = String(failed.message); },
      onRunErrorEvent({ event }) { error = event.message; },
    });
  } catch (failed) {
    error ??= String(failed.message);
  }
  turns.push({ types, error, pending: agent.pendingInterrupts });
}
console.log(JSON.stringify({ turns, messages: agent.messages }));
