// Uses OpenAI's own SDK for JavaScript and prints what it came to as JSON. Argument: the address of the API.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: process.argv[3], maxRetries: 0 });
const messages = [{ role: "user", content: "Hi" }];
const models = (await client.models.list()).data.map((one) => one.id);
const whole = await client.chat.completions.create({ model: "a", messages });
const pieces = [];
for await (const chunk of await client.chat.completions.create({ model: "a", messages, stream: true })) {
  if (chunk.choices[0]?.delta?.content) pieces.push(chunk.choices[0].delta.content);
}
const errors = [];
for (const given of [{ model: "nobody", messages }, { model: "a", messages: [] }]) {
  try {
    await client.chat.completions.create(given);
  } catch (failed) {
    errors.push([failed.constructor.name, failed.status, failed.code]);
  }
}
const tools = [{ type: "function", function: { name: "locate", parameters: { type: "object", properties: {} } } }];
const runner = client.chat.completions.runTools({
  model: "tools",
  messages,
  tools: [{ ...tools[0], function: { ...tools[0].function, function: () => "Lyon", parse: JSON.parse } }],
});
const ran = await runner.finalContent();
console.log(JSON.stringify({ models, whole: whole.choices[0].message.content, pieces, errors, ran }));
