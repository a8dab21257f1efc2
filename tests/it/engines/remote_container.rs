//! Conformance of the container engine behind the host helper's socket.

use std::path::PathBuf;
use std::sync::Arc;

use hotdesk::base::ids::ComputerId;
use hotdesk::base::tasks::Tasks;
use hotdesk::engine::Engine;
use hotdesk::engine::remote::{self, RemoteEngine};

use super::conformance::{EngineFixture, conformance_tests};
use super::host::ContainerFixture;
use super::remote::own_user;

/// A helper with the container engine, for controllers that call it.
struct ContainerBehindHelper {
    inner: ContainerFixture,
    folder: tempfile::TempDir,
    _tasks: Tasks,
}

impl ContainerBehindHelper {
    /// Prints the reason and returns `None` where containers cannot run.
    fn new() -> Option<Self> {
        let inner = ContainerFixture::without_network()?;
        let (folder, tasks) = (tempfile::tempdir().expect("a folder"), Tasks::new());
        let fixture = Self { inner, folder, _tasks: tasks.clone() };
        let listener = remote::listen(&fixture.socket(), own_user()).expect("a socket");
        let engine = Arc::clone(&fixture.inner.engine);
        let _serving = tasks.spawn("helper", remote::serve(listener, engine, own_user(), tasks.clone()));
        Some(fixture)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("host.sock")
    }
}

impl EngineFixture for ContainerBehindHelper {
    fn engine(&self) -> Arc<dyn Engine> {
        self.reopen()
    }

    fn reopen(&self) -> Arc<dyn Engine> {
        let connect = RemoteEngine::connect(self.socket());
        let connected = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(connect));
        Arc::new(connected.expect("the helper answers"))
    }

    fn expect_removed(&self, id: ComputerId) {
        self.inner.expect_removed(id);
    }
}

conformance_tests!(ContainerBehindHelper::new());
conformance_tests!(ContainerBehindHelper::new(), copies);
