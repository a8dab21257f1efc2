// Start of the console.

// First, because the styles of pages override them.
import "./app/tokens.css";
import "./app/base.css";
import "./app/theme.css";
import { render } from "solid-js/web";
import { App } from "./app/routes";

const root = document.getElementById("app");
if (root) render(() => <App />, root);
