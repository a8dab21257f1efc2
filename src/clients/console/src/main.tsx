// Start of the console.

import { render } from "solid-js/web";
import { App } from "./app/routes";
import "./app/tokens.css";
import "./app/base.css";
import "./app/theme.css";

const root = document.getElementById("app");
if (root) render(() => <App />, root);
