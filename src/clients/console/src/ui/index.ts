// Parts of which the pages are made.

export { Button, IconButton, LinkButton } from "./button";
export { confirm, ConfirmHost } from "./confirm";
export { CopyButton, copyText } from "./copy";
export { Dialog } from "./dialog";
export { Empty, Failure, Loading } from "./states";
export { Field, Select, Switch, TextArea } from "./field";
export { Loaded, valueOf } from "./loaded";
export { Menu } from "./menu";
export { Since, Bytes } from "./values";
export { Table } from "./table";
export { StatusBadge } from "./status";
export { notify, Notices, attempt } from "./notices";
