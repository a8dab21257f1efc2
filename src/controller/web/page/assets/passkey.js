// Makes a passkey, or signs in with one: asks the browser, and sends its answer as a form.

const form = document.getElementById("passkey");
const state = document.getElementById("state");
const { challenge, rp, user, account, known } = form.dataset;

function bytes(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0));
}

function base64url(buffer) {
  return btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function make() {
  const { rawId, response } = await navigator.credentials.create({
    publicKey: {
      rp: { id: rp, name: "hotdesk" },
      user: { id: bytes(user), name: account, displayName: account },
      challenge: new TextEncoder().encode(challenge),
      // ES256 and RS256.
      pubKeyCredParams: [-7, -257].map((alg) => ({ type: "public-key", alg })),
      authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "required" },
      excludeCredentials: known.split(" ").filter(Boolean).map((id) => ({ type: "public-key", id: bytes(id) })),
      attestation: "none",
    },
  });
  return {
    id: base64url(rawId),
    client_data: base64url(response.clientDataJSON),
    authenticator_data: base64url(response.getAuthenticatorData()),
    public_key: base64url(response.getPublicKey() ?? new ArrayBuffer(0)),
  };
}

async function use() {
  const { rawId, response } = await navigator.credentials.get({
    publicKey: { rpId: rp, challenge: new TextEncoder().encode(challenge), userVerification: "required" },
  });
  return {
    id: base64url(rawId),
    client_data: base64url(response.clientDataJSON),
    authenticator_data: base64url(response.authenticatorData),
    signature: base64url(response.signature),
    user: base64url(response.userHandle ?? new ArrayBuffer(0)),
  };
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  state.textContent = "";
  try {
    const answer = await (user ? make() : use());
    for (const [name, value] of Object.entries(answer)) form.elements[name].value = value;
    form.submit();
  } catch (error) {
    state.textContent = error.name === "InvalidStateError"
      ? "This device has a passkey for the account already."
      : `The browser did not use a passkey: ${error.message}`;
  }
});

if (!navigator.credentials?.create || !window.PublicKeyCredential) {
  state.textContent = "This browser has no passkeys, or the address is neither https nor localhost.";
}
// A press before this script could listen would send the form without the browser's answer.
const button = form.querySelector("button:not([type])");
button.disabled = false;
button.focus();
