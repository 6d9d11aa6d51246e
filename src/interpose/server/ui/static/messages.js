// Entries as AG-UI messages, and messages as entries.

const NOT_RUN = /^(rejected by a person|not executed)\b/;

/** Return the state of a call that has its result. */
export function afterResult(result, isError) {
  if (!isError) return "done";
  return NOT_RUN.test(asText(result)) ? "unrun" : "failed";
}

/** Return the conversation as the server is told it: what was withdrawn, half said or asked is left out. */
export function messagesOf(entries) {
  const messages = [];
  const assistants = new Map();
  const assistant = (id) => {
    if (!assistants.has(id)) {
      assistants.set(id, { id, role: "assistant", content: "" });
      messages.push(assistants.get(id));
    }
    return assistants.get(id);
  };
  for (const entry of entries) {
    if (entry.half) continue;
    if (entry.kind === "user") messages.push({ id: entry.id, role: "user", content: entry.text });
    else if (entry.kind === "text" && entry.text) assistant(entry.id).content = entry.text;
    else if (entry.kind === "call" && entry.resultId) {
      const message = assistant(entry.parent || `m_${entry.id}`);
      message.toolCalls = [...(message.toolCalls || []), { id: entry.id, type: "function", function: { name: entry.name, arguments: entry.args || "{}" } }];
      const said = asText(entry.result);
      messages.push({ id: entry.resultId, role: "tool", toolCallId: entry.id, content: said, ...(entry.state === "done" ? {} : { error: said }) });
    }
  }
  return messages;
}

function asText(value) {
  return typeof value === "string" ? value : JSON.stringify(value ?? "");
}

/** Return entries for messages that a server keeps. */
export function entriesOf(messages) {
  const entries = [];
  const calls = new Map();
  for (const message of messages) {
    const { id, role } = message;
    const text = plain(message.content);
    if (role === "user") entries.push({ kind: "user", id, text });
    else if (role === "assistant") {
      const reasoning = message.metadata?.interpose?.reasoning;
      if (reasoning) entries.push({ kind: "reasoning", id, text: reasoning, open: false });
      if (text) entries.push({ kind: "text", id, text, open: false });
      for (const call of message.toolCalls || []) {
        const entry = { kind: "call", id: call.id, name: call.function?.name ?? "?", parent: id, args: call.function?.arguments ?? "", state: "cut" };
        calls.set(call.id, entry);
        entries.push(entry);
      }
    } else if (role === "tool" && calls.has(message.toolCallId)) {
      Object.assign(calls.get(message.toolCallId), { state: afterResult(message.content, message.error !== undefined), result: message.content, resultId: id });
    }
  }
  return entries;
}

function plain(content) {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((part) => part.text ?? `[${part.type}]`).join("\n") : "";
}
