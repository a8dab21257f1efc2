//! Messages that a model sees: repair of a stored conversation, and the bound on screenshots.

use hotdesk_model::conversation::{Content, Image, Message, Role, ToolCall, ToolResult};

/// Screenshots in one request to a model. The newest shows the screen, the ones before it what the last
/// actions did; each costs more than a thousand tokens.
const KEPT_SCREENSHOTS: usize = 3;
/// Text in place of a picture.
const REMOVED_PICTURE: &str = "[A picture was removed.]";
/// Result of a call that has none. It says nothing that may be false after a crash.
const NO_RESULT: &str = "There is no result: the call was not allowed, or the run ended before or while it was executed. \
                         Look at the screen to find out.";

/// A conversation in progress.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Its messages, oldest first.
    pub messages: Vec<Message>,
    /// Place of the first screenshot, which belongs to no result of a call: its message and its part.
    first_screenshot: Option<(usize, usize)>,
}

/// A stored conversation in a form that every back end accepts.
#[derive(Debug, Default, PartialEq)]
pub struct RepairedHistory {
    /// Its messages. The results of calls directly follow their calls.
    pub messages: Vec<Message>,
    /// Calls at the end that have no result, in order. The last message is then the user's, with the results
    /// of the other calls.
    pub unanswered: Vec<ToolCall>,
}

impl RepairedHistory {
    /// Repairs a stored conversation, which a crash, a cancellation or a bound may have cut anywhere. Each
    /// call gets a result, results without their call are left out, and it begins with a text of the user.
    pub fn of(history: Vec<Message>) -> Self {
        let mut repaired = Self::default();
        let mut rest = history.into_iter().map(without_empty_pictures).peekable();
        while let Some(message) = rest.next() {
            if message.role == Role::User {
                repaired.push_user(message.content.into_iter().filter(|part| !is_result(part)).collect());
                continue;
            }
            if repaired.messages.is_empty() || message.content.is_empty() {
                continue;
            }
            let calls: Vec<ToolCall> = calls(&message.content);
            repaired.messages.push(message);
            if calls.is_empty() {
                continue;
            }
            let (mut results, mut others) = (Vec::new(), Vec::new());
            while let Some(answer) = rest.next_if(|next| next.role == Role::User) {
                for part in answer.content {
                    match part {
                        Content::ToolResult(result) => results.push(result),
                        Content::Text { .. }
                        | Content::Image(_)
                        | Content::Thinking { .. }
                        | Content::RedactedThinking { .. }
                        | Content::ToolCall(_) => others.push(part),
                    }
                }
            }
            let mut answers: Vec<Content> = Vec::with_capacity(calls.len());
            let is_at_end = others.is_empty() && rest.peek().is_none();
            for call in calls {
                match results.iter().position(|result| result.call == call.id) {
                    Some(at) => answers.push(Content::ToolResult(results.swap_remove(at))),
                    None if is_at_end => repaired.unanswered.push(call),
                    None => answers.push(Content::ToolResult(no_result(&call))),
                }
            }
            answers.append(&mut others);
            repaired.messages.push(Message { role: Role::User, content: answers });
        }
        repaired
    }

    /// Gives the unanswered calls a result that says so.
    pub fn answer_rest(&mut self) {
        let missing = std::mem::take(&mut self.unanswered);
        let answers = missing.iter().map(|call| Content::ToolResult(no_result(call)));
        if let Some(last) = self.messages.last_mut() {
            last.content.extend(answers);
        }
    }

    fn push_user(&mut self, content: Vec<Content>) {
        // The first message has a text, which says what this is about.
        let is_first = self.messages.is_empty();
        let has_text = content.iter().any(|part| matches!(part, Content::Text { .. }));
        if !content.is_empty() && (has_text || !is_first) {
            self.messages.push(Message { role: Role::User, content });
        }
    }
}

impl Conversation {
    /// Continues a conversation.
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, first_screenshot: None }
    }

    /// Adds a message.
    pub fn add(&mut self, message: Message) {
        match message.role {
            Role::User => self.add_user(message.content),
            Role::Assistant => self.messages.push(message),
        }
    }

    /// Adds parts to the last message if it is the user's, else as a new one.
    pub fn add_user(&mut self, parts: impl IntoIterator<Item = Content>) {
        match self.messages.last_mut().filter(|last| last.role == Role::User) {
            Some(last) => last.content.extend(parts),
            None => self.messages.push(Message { role: Role::User, content: parts.into_iter().collect() }),
        }
    }

    /// Adds the screenshot of the beginning to the last message of the user.
    pub fn add_first_screenshot(&mut self, image: Image) {
        self.add_user([Content::Image(image)]);
        let last = self.messages.len().saturating_sub(1);
        let part = self.messages.last().map_or(0, |message| message.content.len().saturating_sub(1));
        self.first_screenshot = Some((last, part));
    }

    /// Removes all screenshots but the newest three. Pictures of the user stay.
    pub fn remove_old_screenshots(&mut self) {
        let first = self.first_screenshot;
        let mut kept = 0;
        for (number, message) in self.messages.iter_mut().enumerate().rev() {
            for (at, part) in message.content.iter_mut().enumerate().rev() {
                let is_screenshot = match part {
                    Content::ToolResult(result) => result.image.is_some(),
                    Content::Image(_) => first == Some((number, at)),
                    Content::Text { .. }
                    | Content::Thinking { .. }
                    | Content::RedactedThinking { .. }
                    | Content::ToolCall(_) => false,
                };
                if !is_screenshot {
                    continue;
                }
                kept += 1;
                if kept > KEPT_SCREENSHOTS {
                    *part = without_picture(part.clone());
                }
            }
        }
    }
}

/// Calls of tools in a message, in order.
pub fn calls(content: &[Content]) -> Vec<ToolCall> {
    let call = |part: &Content| match part {
        Content::ToolCall(call) => Some(call.clone()),
        Content::Text { .. }
        | Content::Image(_)
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolResult(_) => None,
    };
    content.iter().filter_map(call).collect()
}

fn is_result(part: &Content) -> bool {
    matches!(part, Content::ToolResult(_))
}

fn no_result(call: &ToolCall) -> ToolResult {
    ToolResult { call: call.id.clone(), text: NO_RESULT.to_owned(), image: None, is_error: true }
}

/// Replaces pictures whose bytes are not stored.
fn without_empty_pictures(message: Message) -> Message {
    let replaced = |part: Content| match &part {
        Content::Image(image) if image.data.is_empty() => without_picture(part),
        Content::ToolResult(result) if result.image.as_ref().is_some_and(|image| image.data.is_empty()) => {
            without_picture(part)
        }
        Content::Text { .. }
        | Content::Image(_)
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolCall(_)
        | Content::ToolResult(_) => part,
    };
    Message { role: message.role, content: message.content.into_iter().map(replaced).collect() }
}

fn without_picture(part: Content) -> Content {
    match part {
        Content::Image(_) => Content::Text { text: REMOVED_PICTURE.to_owned() },
        Content::ToolResult(result) => {
            let text = match result.text.as_str() {
                "" => REMOVED_PICTURE.to_owned(),
                text => format!("{text}\n{REMOVED_PICTURE}"),
            };
            Content::ToolResult(ToolResult { text, image: None, ..result })
        }
        Content::Text { .. }
        | Content::Thinking { .. }
        | Content::RedactedThinking { .. }
        | Content::ToolCall(_) => part,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn text(text: &str) -> Content {
        Content::Text { text: text.to_owned() }
    }

    fn call(id: &str) -> Content {
        let call = ToolCall { id: id.to_owned(), name: "bash".to_owned(), input: json!({}) };
        Content::ToolCall(call)
    }

    fn picture(byte: u8) -> Image {
        Image { media_type: "image/png".to_owned(), data: Bytes::from(vec![byte]) }
    }

    fn result(id: &str, image: Option<Image>) -> Content {
        Content::ToolResult(ToolResult { call: id.to_owned(), text: "ok".to_owned(), image, is_error: false })
    }

    fn message(role: Role, content: impl Into<Vec<Content>>) -> Message {
        Message { role, content: content.into() }
    }

    /// A short form of messages: `u:text`, `a:call 1`, `u:result 1 ok`, parts joined by `,`.
    fn shown(messages: &[Message]) -> Vec<String> {
        let part = |part: &Content| match part {
            Content::Text { text } => text.clone(),
            Content::Image(image) => format!("picture {:?}", image.data.first()),
            Content::Thinking { .. } | Content::RedactedThinking { .. } => "thinking".to_owned(),
            Content::ToolCall(call) => format!("call {}", call.id),
            Content::ToolResult(result) => {
                let picture = if result.image.is_some() { " picture" } else { "" };
                let state = if result.is_error { "error" } else { "ok" };
                format!("result {} {state}{picture}", result.call)
            }
        };
        let one = |message: &Message| {
            let role = if message.role == Role::User { "u" } else { "a" };
            format!("{role}:{}", message.content.iter().map(part).collect::<Vec<_>>().join(","))
        };
        messages.iter().map(one).collect()
    }

    #[test]
    fn a_stored_conversation_is_repaired() {
        use Role::{Assistant as A, User as U};
        let user = || message(U, [text("hi")]);
        for (history, expected, unanswered) in [
            (vec![], &[][..], &[][..]),
            (vec![user(), message(A, [text("yes")])], &["u:hi", "a:yes"], &[]),
            // Cut at the beginning.
            (vec![message(A, [call("1")]), message(U, [result("1", None)]), user()], &["u:hi"], &[]),
            // Results in several messages, and in another order than the calls.
            (
                vec![
                    user(),
                    message(A, [call("1"), call("2")]),
                    message(U, [result("2", None)]),
                    message(U, [result("1", None), text("go on")]),
                ],
                &["u:hi", "a:call 1,call 2", "u:result 1 ok,result 2 ok,go on"],
                &[],
            ),
            // Cut at the end.
            (
                vec![user(), message(A, [call("1"), call("2")]), message(U, [result("1", None)])],
                &["u:hi", "a:call 1,call 2", "u:result 1 ok"],
                &["2"],
            ),
            (vec![user(), message(A, [call("1")])], &["u:hi", "a:call 1", "u:"], &["1"]),
            // Cut in the middle: the user has gone on since.
            (
                vec![user(), message(A, [call("1")]), user(), message(A, [text("ok")])],
                &["u:hi", "a:call 1", "u:result 1 error,hi", "a:ok"],
                &[],
            ),
            // A call without an answer before another message of the model.
            (
                vec![user(), message(A, [call("1")]), message(A, [text("ok")])],
                &["u:hi", "a:call 1", "u:result 1 error", "a:ok"],
                &[],
            ),
            // A result of no call, and a message without content.
            (vec![user(), message(A, []), message(U, [result("9", None)])], &["u:hi"], &[]),
        ] {
            let mut repaired = RepairedHistory::of(history.clone());
            assert_eq!(shown(&repaired.messages), expected, "{history:?}");
            let left: Vec<&str> = repaired.unanswered.iter().map(|call| call.id.as_str()).collect();
            assert_eq!(left, unanswered, "{history:?}");
            repaired.answer_rest();
            assert!(repaired.unanswered.is_empty());
            let again = RepairedHistory::of(repaired.messages.clone());
            assert_eq!(again, repaired, "a repaired conversation needs no repair");
        }
    }

    #[test]
    fn pictures_that_are_not_stored_become_a_text() {
        let empty = Image { media_type: "image/png".to_owned(), data: Bytes::new() };
        let history = vec![
            message(Role::User, [text("hi"), Content::Image(empty.clone())]),
            message(Role::Assistant, [call("1")]),
            message(Role::User, [result("1", Some(empty))]),
        ];
        let repaired = RepairedHistory::of(history);
        let expected = ["u:hi,[A picture was removed.]", "a:call 1", "u:result 1 ok"];
        assert_eq!(shown(&repaired.messages), expected);
    }

    #[test]
    fn only_the_newest_screenshots_stay() {
        let mut conversation = Conversation::new(Vec::new());
        conversation.add_user([text("hi"), Content::Image(picture(1))]);
        conversation.add_first_screenshot(picture(2));
        for number in ["1", "2", "3"] {
            conversation.messages.push(message(Role::Assistant, [call(number)]));
            conversation.add_user([result(number, Some(picture(3)))]);
            conversation.remove_old_screenshots();
        }
        let seen = shown(&conversation.messages);
        assert_eq!(seen[0], "u:hi,picture Some(1),[A picture was removed.]");
        assert_eq!(seen.iter().filter(|one| one.ends_with("ok picture")).count(), KEPT_SCREENSHOTS);
        conversation.messages.push(message(Role::Assistant, [call("4")]));
        conversation.add_user([result("4", Some(picture(3)))]);
        conversation.remove_old_screenshots();
        assert_eq!(shown(&conversation.messages)[2], "u:result 1 ok");
    }
}
