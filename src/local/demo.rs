//! The story of the demo: what happens to intents when clicks double, providers hang and fallbacks are unproved.
//!
//! Everything here goes through the gateway's own HTTP, and every step is judged by what the database then holds. The
//! story knows no shortcut that a user would not have.

mod scene;
mod steps;

use std::path::PathBuf;

use crate::local::sim::{Behaviour, SimProvider, Wire};
pub use scene::{Scene, SceneError};

/// The three providers of the story.
#[derive(Debug)]
pub struct Cast {
    /// The primary; it hangs and refuses on command.
    pub primary: SimProvider,
    /// Answers 200 and breaks the contract.
    pub loose: SimProvider,
    /// Sound, and of another make: it speaks Anthropic's protocol.
    pub sound: SimProvider,
}

impl Cast {
    pub async fn start() -> std::io::Result<Cast> {
        let primary = SimProvider::start("primary", Wire::OpenAiChat).await?;
        let loose = SimProvider::start("loose", Wire::OpenAiChat).await?;
        let sound = SimProvider::start("sound", Wire::AnthropicMessages).await?;
        primary.set_models(["gpt-4.1"]);
        loose.set_models(["gpt-4.1"]);
        loose.set_behaviour(Behaviour::BreaksContract);
        sound.set_models(["claude-sonnet-4-5"]);
        Ok(Cast { primary, loose, sound })
    }

    /// Settings as a user would write them.
    pub fn settings(&self, data_dir: &std::path::Path, token_file: &std::path::Path) -> String {
        format!(
            r#"[server]
listen = "127.0.0.1:0"
operator_listen = "127.0.0.1:0"
operator_token = "file:{token}"
[database]
data_dir = "{data}"
[providers.primary]
adapter = "openai"
base_url = "{primary}"
[providers.loose]
adapter = "openai"
base_url = "{loose}"
[providers.sound]
adapter = "anthropic"
base_url = "{sound}"
[routes.support]
contract = "support-triage"
targets = ["primary/gpt-4.1", "loose/gpt-4.1", "sound/claude-sonnet-4-5"]
attempt_timeout = "3s"
settle_timeout = "60s"
retries = 0
"#,
            token = token_file.display(),
            data = data_dir.display(),
            primary = self.primary.base_url(),
            loose = self.loose.base_url(),
            sound = self.sound.base_url(),
        )
    }
}

/// A folder of this demo's own, which a database server running as another user can reach.
pub fn folder() -> PathBuf {
    std::env::temp_dir().join(format!("interlock-demo-{}", std::process::id()))
}

/// Plays the whole story. `Ok(false)`: a step did not hold.
pub async fn play(scene: &mut Scene, cast: &Cast) -> Result<bool, SceneError> {
    steps::double_click(scene, cast).await?;
    steps::changed_payload(scene, cast).await?;
    let hung = steps::timeout_blocks(scene, cast).await?;
    steps::reverse_finish(scene, cast, hung).await?;
    let refused = steps::failover_refused(scene, cast).await?;
    steps::suite_fails(scene).await?;
    let run = steps::suite_passes(scene).await?;
    steps::failover_allowed(scene, cast, refused, run).await?;
    Ok(scene.all_held())
}
