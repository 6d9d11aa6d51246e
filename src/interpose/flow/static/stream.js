// The connection to the app. The browser connects again by itself and says how far it got.

const AGAIN_MS = 2000;
const HIDDEN_MS = 20_000;

/** Feed the store from `api/events`; `said` is told "live", "lost" or "refused". */
export function connect(store, said) {
  let source = null;
  let hiding = null;

  function open() {
    if (source) source.close();
    source = new EventSource("api/events");
    source.onopen = () => said("live");
    for (const name of ["snapshot", "run", "event", "gone"]) {
      source.addEventListener(name, (message) => store[name](JSON.parse(message.data)));
    }
    source.onerror = () => {
      const refused = source.readyState === EventSource.CLOSED;
      said(refused ? "refused" : "lost");
      if (refused) setTimeout(() => !document.hidden && open(), AGAIN_MS);
    };
  }

  // A browser keeps six connections to one place: pages that nobody sees give theirs back.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) {
      hiding = setTimeout(() => {
        source.close();
        source = null;
      }, HIDDEN_MS);
    } else if (!source || source.readyState === EventSource.CLOSED) open();
  });
  open();
}
