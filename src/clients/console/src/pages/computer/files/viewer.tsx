// One file: its picture, pages or text, and what else to do with it.

import Download from "lucide-solid/icons/download";
import { createMemo, Match, onCleanup, Switch } from "solid-js";
import { createFetched } from "../../../api/fetched";
import { Button, Empty, Failure, Loading } from "../../../ui";
import { contentOf } from "./content";
import { Editor } from "./editor";
import { join, nameOf } from "./path";
import { download } from "./transfers";

/** Shows a file. `back` is the address of its folder. */
export function Viewer(props: { computer: string; folder: string; name: string; back: string }) {
  const path = () => join(props.folder, props.name);
  const content = createFetched(
    // A text, so that a new list of the folder does not fetch the file again, over what a person edits.
    () => `${props.computer}${path()}`,
    (_, signal) => contentOf(props.computer, path(), signal),
  );
  /** Address of the bytes of a picture or a PDF file, which ends with them. */
  const addressOf = (kind: "picture" | "pdf") => createMemo(() => {
    const shown = content.value();
    if (shown?.kind !== kind) return undefined;
    const address = URL.createObjectURL(shown.bytes);
    onCleanup(() => URL.revokeObjectURL(address));
    return address;
  });
  const picture = addressOf("picture");
  const pdf = addressOf("pdf");
  const why = () => {
    const shown = content.value();
    return shown?.kind === "none" ? shown.why : undefined;
  };
  const opened = () => {
    const shown = content.value();
    return shown?.kind === "text" ? shown.opened : undefined;
  };
  const save = () => download(props.computer, path(), false);
  return (
    <section aria-labelledby="files-open">
      <div class="bar">
        <h2 id="files-open">{nameOf(path())}</h2>
        <span class="grow" />
        <Button onClick={save}><Download size={16} aria-hidden="true" />Download</Button>
        <a class="button" href={props.back}>Back to the folder</a>
      </div>
      <Switch fallback={<Loading what={props.name} />}>
        <Match when={content.failure()}>
          {(error) => <Failure what="The file cannot be shown" error={error()} retry={() => void content.refetch()} />}
        </Match>
        <Match when={picture()}>{(address) => <img class="files-picture" src={address()} alt={props.name} />}</Match>
        {/* The browser's own viewer: it runs in no frame with `sandbox`, and scripts of the file reach no page. */}
        <Match when={pdf()}>{(address) => <iframe class="files-pdf" src={address()} title={`Pages of ${props.name}`} />}</Match>
        <Match when={why()}>{(why) => <Empty title="No preview"><p>{why()}</p></Empty>}</Match>
        {/* Another version is another editor. */}
        <Match when={opened()} keyed>
          {(opened) => <Editor computer={props.computer} path={path()} opened={opened} reload={() => void content.refetch()} />}
        </Match>
      </Switch>
    </section>
  );
}
