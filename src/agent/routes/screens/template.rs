//! The screens as the computer's template uses them.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::actions::ActionRunner;
use crate::exec::services::TemplateScreens;
use crate::exec::{Commands, bash};
use crate::media::stream::Streams;
use hotdesk_domain::error::{Error, Result};
use hotdesk_domain::identity::access::actor::Actor;
use hotdesk_wire::desktop::call::ComputerCall;
use hotdesk_wire::desktop::stream::{StreamStarted, StreamTo};

/// What templates reach.
pub struct ScreensOfTemplate {
    /// Actions on the screens.
    pub runner: ActionRunner,
    /// Shell commands.
    pub commands: Commands,
    /// Streams of the screens.
    pub streams: Streams,
}

impl TemplateScreens for ScreensOfTemplate {
    fn call(&self, call: ComputerCall) -> BoxFuture<'static, Result<()>> {
        let (runner, commands) = (self.runner.clone(), self.commands.clone());
        async move {
            match call {
                ComputerCall::Action(action) => {
                    runner.act(Some(Actor::Template), None, *action).await.map(drop)
                }
                ComputerCall::Bash(request) => {
                    let ended = bash::run(&commands, request).await?;
                    match ended.exit_code {
                        0 => Ok(()),
                        code => Err(Error::conflict(format!("the command ended with {code}"))),
                    }
                }
            }
        }
        .boxed()
    }

    fn stream(&self, to: StreamTo) -> BoxFuture<'static, Result<StreamStarted>> {
        let streams = self.streams.clone();
        async move { streams.start(to).await }.boxed()
    }
}
