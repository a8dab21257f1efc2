// The part of noVNC's RFB client that `<hotdesk-screen>` uses. packaging/npm puts noVNC beside it.

/** An RFB connection that draws a screen into an element. */
export default class RFB extends EventTarget {
  constructor(target: HTMLElement, socket: WebSocket, options?: { shared?: boolean });
  background: string;
  focusOnClick: boolean;
  qualityLevel: number;
  resizeSession: boolean;
  scaleViewport: boolean;
  viewOnly: boolean;
  blur(): void;
  clipboardPasteFrom(text: string): void;
  disconnect(): void;
  focus(options?: FocusOptions): void;
  sendCredentials(credentials: { password?: string }): void;
  sendKey(keysym: number, code: string, down?: boolean): void;
}
