// Tabs of pages, which the command palette opens, too. Each is loaded when it is opened first.

import { lazy } from "solid-js";

/** The tabs of a computer by the end of their addresses; the first is that of the address without one. */
export const COMPUTER_TABS = [
  { id: "screen", name: "Screen", tab: lazy(() => import("../pages/computer/screen/tab")) },
  { id: "terminal", name: "Terminal", tab: lazy(() => import("../pages/computer/terminal/tab")) },
  { id: "files", name: "Files", tab: lazy(() => import("../pages/computer/files/tab")) },
  { id: "activity", name: "Activity", tab: lazy(() => import("../pages/computer/activity/tab")) },
  { id: "processes", name: "Processes", tab: lazy(() => import("../pages/computer/processes/tab")) },
  { id: "recordings", name: "Recordings", tab: lazy(() => import("../pages/computer/recordings/tab")) },
  { id: "snapshots", name: "Snapshots", tab: lazy(() => import("../pages/computer/snapshots/tab")) },
  { id: "settings", name: "Settings", tab: lazy(() => import("../pages/computer/settings/tab")) },
  { id: "connect", name: "Give this to an agent", tab: lazy(() => import("../pages/computer/connect/tab")) },
] as const;

/** The tabs of the settings, likewise. */
export const SETTINGS_TABS = [
  { id: "keys", name: "API keys", tab: lazy(() => import("../pages/settings/keys")) },
  { id: "secrets", name: "Secrets", tab: lazy(() => import("../pages/settings/secrets")) },
  { id: "members", name: "Members", tab: lazy(() => import("../pages/settings/members")) },
  { id: "workspaces", name: "Workspaces", tab: lazy(() => import("../pages/settings/workspaces")) },
  { id: "clients", name: "Clients and usage", tab: lazy(() => import("../pages/settings/clients")) },
  { id: "capacity", name: "Capacity and plan", tab: lazy(() => import("../pages/settings/capacity")) },
  { id: "streaming", name: "Streaming", tab: lazy(() => import("../pages/settings/streaming")) },
  { id: "sessions", name: "Browser sessions", tab: lazy(() => import("../pages/settings/sessions")) },
] as const;
