// Start of the console.

// First, because the styles of pages override them.
import "./app/tokens.css";
import "./app/base.css";
import "./app/theme.css";
import { render } from "solid-js/web";
import { connectLive } from "./api/live";
import { App } from "./app/routes";

// Before the page is made, so that its records are on the way meanwhile.
connectLive();
const root = document.getElementById("app");
if (root) render(() => <App />, root);
