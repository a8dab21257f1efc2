// Beginning of a thread.

import { answerOf, api } from "../api/service";
import { attempt } from "../ui";
import { handOver, type Question } from "./conversation";

/**
 * Makes a thread on a computer, with a title from its first question, which the view of the thread asks. Resolves to its id;
 * undefined after a failure, which was shown.
 */
export function beginThread(computer: string, question: Question): Promise<string | undefined> {
  return attempt("The thread could not be begun", async () => {
    const { remoteId: id } = await answerOf(api.POST("/chat/threads", { body: { desktopId: computer } }));
    const body = { messages: [{ role: "user", content: question.text }] };
    await attempt("The thread has no title", () =>
      answerOf(api.POST("/chat/threads/{id}/title", { params: { path: { id } }, body, parseAs: "text" })));
    handOver(id, question);
    return id;
  });
}
