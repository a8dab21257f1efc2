// Follows a sign-in link: sends the token of the page's fragment as a form.

const form = document.getElementById("link");
const token = new URLSearchParams(location.hash.slice(1)).get("token");

function follow() {
  // The token leaves the address bar, so that it is not copied with the address.
  history.replaceState(null, "", location.pathname);
  form.elements.token.value = token;
  form.submit();
}

if (!token) {
  document.getElementById("state").textContent = "This link is not complete. Copy it as a whole, or make another one.";
} else if (document.prerendering) {
  // A browser that loads pages in advance must not use the link up.
  document.addEventListener("prerenderingchange", follow, { once: true });
} else {
  follow();
}
