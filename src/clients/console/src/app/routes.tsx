// Addresses of the pages. Each page is loaded when it is opened first, except the fleet, which most people see first.

import { Route, Router } from "@solidjs/router";
import { lazy } from "solid-js";
import Fleet from "../pages/fleet/page";
import { Shell } from "./shell";

const Computer = lazy(() => import("../pages/computer/page"));
const Templates = lazy(() => import("../pages/templates/page"));
const NewTemplate = lazy(() => import("../pages/templates/new"));
const Template = lazy(() => import("../pages/templates/template"));
const Threads = lazy(() => import("../pages/threads/page"));
const Settings = lazy(() => import("../pages/settings/page"));
const Audit = lazy(() => import("../pages/audit/page"));
const Host = lazy(() => import("../pages/host/page"));
const Docs = lazy(() => import("../pages/docs/page"));
const Unknown = lazy(() => import("../pages/unknown"));

/** The console with its pages. */
export function App() {
  return (
    <Router root={Shell}>
      <Route path="/console" component={Fleet} />
      <Route path="/console/computers/:id/:tab?" component={Computer} />
      <Route path="/console/templates" component={Templates} />
      <Route path="/console/templates/new" component={NewTemplate} />
      <Route path="/console/templates/:namespace/:name/:version?" component={Template} />
      <Route path="/console/threads/:id?" component={Threads} />
      <Route path="/console/settings/:tab?" component={Settings} />
      <Route path="/console/audit" component={Audit} />
      <Route path="/console/host" component={Host} />
      <Route path="/docs/*page" component={Docs} />
      <Route path="*" component={Unknown} />
    </Router>
  );
}
