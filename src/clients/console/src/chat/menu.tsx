// Menu of a thread: rename, export, delete.

import { createSignal } from "solid-js";
import { answerOf, api, fetchBlob } from "../api/service";
import { attempt, Button, confirm, Dialog, Field, Menu, notify } from "../ui";
import { saveBlob } from "../ui/save";

/** Characters of a title (docs/api/threads.md, "Bounds"). */
const TITLE = 255;

/** The menu. */
export function ThreadMenu(props: { id: string; title: string; onChange: () => void; onDelete: () => void }) {
  const [isRenaming, setRenaming] = createSignal(false);
  const [title, setTitle] = createSignal("");
  const params = () => ({ path: { id: props.id } });

  const rename = async () => {
    const wanted = title().trim();
    if (wanted === "") return;
    await attempt("The thread could not be renamed", async () => {
      await answerOf(api.PATCH("/chat/threads/{id}", { params: params(), body: { title: wanted } }));
      setRenaming(false);
      props.onChange();
    });
  };
  const save = () => attempt("The thread could not be exported", async () => {
    notify({ text: "The thread is being exported…" });
    saveBlob(await fetchBlob(`/chat/threads/${props.id}/export`), `${props.id}.jsonl`);
  });
  const remove = async () => {
    const yes = await confirm({
      title: "Delete this thread?",
      text: "Its messages, steps and pictures are removed, and a run that is in progress fails. This cannot be undone.",
      action: "Delete the thread",
    });
    if (!yes) return;
    await attempt("The thread could not be deleted", async () => {
      await answerOf(api.DELETE("/chat/threads/{id}", { params: params() }));
      notify({ text: "The thread was deleted", tone: "good" });
      props.onDelete();
    });
  };
  return (
    <>
      <Menu label="Actions of the thread" items={[
        { label: "Rename…", onSelect: () => { setTitle(props.title); setRenaming(true); } },
        { label: "Export as JSON lines", onSelect: () => void save() },
        { label: "Delete…", danger: true, separated: true, onSelect: () => void remove() },
      ]} />
      <Dialog open={isRenaming()} title="Rename the thread" onClose={() => setRenaming(false)}>
        <form onSubmit={(event) => { event.preventDefault(); void rename(); }}>
          <Field label="Title" required maxlength={TITLE} value={title()}
            onInput={(event) => setTitle(event.currentTarget.value)} />
          <footer class="actions">
            <Button onClick={() => setRenaming(false)}>Cancel</Button>
            <Button type="submit" look="primary" disabled={title().trim() === ""}>Rename</Button>
          </footer>
        </form>
      </Dialog>
    </>
  );
}
