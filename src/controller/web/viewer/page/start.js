// Reload after a script that failed to load. A network change can interrupt a download, and a browser caches the
// failed module for the lifetime of the page. The ticket is still in the page's address at that time.

addEventListener("error", (event) => {
  // After a pause, because the network may still be changing.
  if (event.target instanceof HTMLScriptElement) setTimeout(() => location.reload(), 1000);
}, { capture: true });
