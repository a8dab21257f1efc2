// Tabs of a computer's page, which the command palette opens, too. Each is loaded when it is opened first.

import { lazy } from "solid-js";

/** The tabs by the end of their addresses; the first is that of the address without one. */
export const TABS = [
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
