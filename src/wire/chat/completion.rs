//! Chat completions and models (`/v1/chat/completions`, `/v1/models`; docs/api/chat.md).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::desktop::action::control::ActorName;

/// `POST /v1/chat/completions`. Fields of the OpenAI API that are not listed here are ignored.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "model": "claude-sonnet-4.6",
    "computer_id": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "messages": [{"role": "user", "content": "Open the editor and write a poem."}]
}))]
pub struct ChatCompletionRequest {
    /// Id of the computer on which the model works.
    #[serde(default)]
    #[schema(required = true)]
    pub computer_id: String,
    /// The conversation; with a thread only what is new. The first and the last message are the user's. It
    /// may be empty with `approve`.
    #[serde(default)]
    #[schema(required = true, max_items = 1000)]
    pub messages: Vec<ChatMessage>,
    /// Id of the model, with dots or hyphens; `claude-sonnet-4.6` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// True for server-sent events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Id of the thread to continue; a new thread when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// Id of the screen; the boot screen when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Most calls of tools, 1 to 250; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 250)]
    pub max_steps: Option<u32>,
    /// Most tokens of one reply of the model, 1 to 64,000; 4,096 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 64_000)]
    pub max_tokens: Option<u32>,
    /// Newer name of `max_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 64_000)]
    pub max_completion_tokens: Option<u32>,
    /// Cost in cents after which the model is not asked again; no bound when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(exclusive_minimum = 0)]
    pub max_cost_cents: Option<f64>,
    /// Tools that the model may use, of `computer` and `bash`; both when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub tools: Option<Vec<String>>,
    /// Calls before which the run ends and waits for `approve`: names of tools, or of actions of the tool
    /// `computer`, for example `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub confirm: Option<Vec<String>>,
    /// True to execute the call that a run of this thread waits to have confirmed, and to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approve: Option<bool>,
    /// True to continue when the client disconnects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    /// Seconds for which the run waits while somebody else controls the screen, at most 3,600; 600 when
    /// absent. With 0 it ends at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3600)]
    pub control_wait_seconds: Option<u32>,
    /// Seconds for which the model may wait for the help of a person: at most 3,600, or 86,400 with
    /// `background`. It has the tool `ask_for_help` then. It may not when absent or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 86_400)]
    pub help_wait_seconds: Option<u32>,
    /// How much the model thinks before it acts: `none`, `minimal`, `low`, `medium`, `high` or `xhigh`; it is
    /// not asked to think when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(none|minimal|low|medium|high|xhigh)$")]
    pub reasoning_effort: Option<String>,
}

/// A message of the request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatMessage {
    /// `user`, `assistant`, or `system` and `developer` for instructions.
    #[schema(pattern = "^(user|assistant|system|developer)$")]
    pub role: String,
    /// A text, or its parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<MessageContent>,
}

/// Content of a message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum MessageContent {
    /// A text.
    Text(String),
    /// Parts, in order.
    Parts(Vec<ContentPart>),
}

/// A part of a message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ContentPart {
    /// `text` or `image_url`.
    #[serde(rename = "type")]
    #[schema(pattern = "^(text|image_url)$")]
    pub kind: String,
    /// The text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_url: Option<ImageUrl>,
}

/// A picture of a message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ImageUrl {
    /// `data:image/png;base64,` and the encoded PNG, JPEG or WebP file. Other URLs are refused.
    pub url: String,
}

/// Answer to `POST /v1/chat/completions` without `stream`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletion {
    /// `chatcmpl-` and 32 hex digits.
    pub id: String,
    /// Always `chat.completion`.
    pub object: String,
    /// Time of the request, in seconds since 1970.
    pub created: i64,
    /// Id of the model.
    pub model: String,
    /// One choice.
    pub choices: Vec<ChatChoice>,
    /// Tokens of all turns of the run.
    pub usage: ChatUsage,
    /// What the run did.
    pub orgo: RunSummary,
}

/// The answer of the model.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatChoice {
    /// Always 0.
    pub index: u32,
    /// The message.
    pub message: AssistantMessage,
    /// `stop`: the model has finished, or the run waits for `approve`. `length`: a bound of the request was
    /// reached, or the wait for a held screen is over. `content_filter`: the model refused.
    pub finish_reason: String,
}

/// Text of the model in all turns of the run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AssistantMessage {
    /// Always `assistant`.
    pub role: String,
    /// The text. The beginning is omitted above 1 MiB.
    pub content: String,
}

/// Tokens of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatUsage {
    /// Tokens of the requests, with cached ones.
    pub prompt_tokens: u64,
    /// Tokens of the replies.
    pub completion_tokens: u64,
    /// Their sum.
    pub total_tokens: u64,
    /// Parts of `prompt_tokens`.
    pub prompt_tokens_details: PromptTokensDetails,
}

/// Parts of the tokens of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptTokensDetails {
    /// Tokens that the back end had cached.
    pub cached_tokens: u64,
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = ChatRun)]
pub struct RunSummary {
    /// Id of the thread.
    pub thread_id: String,
    /// Number of calls of tools.
    pub steps: u32,
    /// Cost of the run in cents, by the prices of the operator's configuration.
    pub cost_cents: f64,
    /// What is left of the client's monthly cap, in cents; present for computers of an operator's client with
    /// a cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_balance_cents: Option<f64>,
    /// Why the run ended: `done`, `max_steps`, `max_tokens`, `max_cost`, `refused`, `confirm` or
    /// `control_held`.
    #[schema(pattern = "^(done|max_steps|max_tokens|max_cost|refused|confirm|control_held)$")]
    pub ended: String,
    /// The call that waits for `approve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingCall>,
}

/// What a run waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProgress {
    /// `control`: somebody else controls the screen. `help`: the model asked a person for help. Null when the
    /// run goes on.
    pub waiting_for: Option<String>,
    /// Who controls the screen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<ActorName>,
    /// What the model needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A call of a tool that waits for `approve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PendingCall {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, as the model wrote them.
    #[schema(value_type = Object)]
    pub input: Value,
}

/// An event of a streamed answer: `data:` of each line but the last, which is `[DONE]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChatCompletionChunk {
    /// The same id in each event.
    pub id: String,
    /// Always `chat.completion.chunk`.
    pub object: String,
    /// Time of the request, in seconds since 1970.
    pub created: i64,
    /// Id of the model.
    pub model: String,
    /// One choice.
    pub choices: Vec<ChunkChoice>,
    /// Tokens of all turns; in the last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChatUsage>,
    /// What the run did; in the last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orgo: Option<RunSummary>,
    /// What the run waits for; in events that tell of a wait and of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<RunProgress>,
}

/// Part of the answer of the model.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChunkChoice {
    /// Always 0.
    pub index: u32,
    /// The part.
    pub delta: ChunkDelta,
    /// As in an answer without `stream`; null in all events but the last.
    pub finish_reason: Option<String>,
}

/// What an event adds to the answer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChunkDelta {
    /// `assistant`, in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Body of a failure of `POST /v1/chat/completions`, and of an event when a streamed run fails.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatErrorBody {
    /// The failure.
    pub error: ChatError,
    /// What is left of the client's monthly cap, in cents; with the status 402 of a client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance_cents: Option<i64>,
}

/// A failure in the form of the OpenAI API.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ChatError {
    /// Kind of the failure, for example `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Text for people.
    pub message: String,
    /// Code for programs.
    pub code: String,
    /// Id of the request.
    pub request_id: String,
    /// Fields of some failures: `thread_id`, `steps`, `balance_cents`, and those of docs/api/errors.md.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, Value>,
}

/// `GET /v1/models`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    pub object: String,
    /// The models, in the order of the configuration.
    pub data: Vec<ModelRecord>,
}

/// A model that runs may use.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Model)]
pub struct ModelRecord {
    /// Id for `model`.
    pub id: String,
    /// Always `model`.
    pub object: String,
    /// Always 0: the configuration has no times.
    pub created: i64,
    /// Always `hotdesk`.
    pub owned_by: String,
}
