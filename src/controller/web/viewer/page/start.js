// What if the page's scripts do not come? A network that changes while they are fetched breaks them off, and a browser
// keeps a broken module for as long as the page. So the page is loaded anew; a ticket is still in its address then.

addEventListener("error", (event) => {
  // A moment later, for a network that is still changing.
  if (event.target instanceof HTMLScriptElement) setTimeout(() => location.reload(), 1000);
}, { capture: true });
