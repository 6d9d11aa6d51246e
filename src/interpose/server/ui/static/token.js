// The dialog that asks for the token which the server wants.

const $ = (id) => document.getElementById(id);

/** Return what the person enters, or null where the dialog is closed without. */
export function askToken(wrong) {
  const [dialog, field, problem] = [$("token"), $("token-field"), $("token-problem")];
  problem.hidden = !wrong;
  field.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" && field.value.trim() ? field.value.trim() : null), { once: true });
  });
}
