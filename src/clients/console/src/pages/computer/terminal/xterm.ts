// The terminal emulator with what it needs, loaded when the first terminal is opened.

import "@xterm/xterm/css/xterm.css";

export { FitAddon } from "@xterm/addon-fit";
export { Terminal as Xterm } from "@xterm/xterm";
