//! The model's own tokenizer and chat template, where a suite brings them: read from its folder, never downloaded.

use std::sync::Arc;

use providers::tokens::{ChatTemplate, TokenizerFile};

use super::file::SuiteFile;
use super::load::Loader;
use super::{Counter, SuiteError};

impl Loader {
    /// Reads `[tokenizer] file` and `chat_template`; both go into the suite's digest.
    pub(super) fn tokenizer(&mut self, file: &SuiteFile) -> Result<Option<Arc<TokenizerFile>>, SuiteError> {
        let (counter, template) = (file.tokenizer.counter, &file.tokenizer.chat_template);
        let Some(name) = &file.tokenizer.file else {
            let problem = match (counter, template) {
                (Counter::File, _) => "counter = \"file\" needs the model's tokenizer",
                (_, Some(_)) => "a chat_template counts nothing without the model's tokenizer",
                _ => return Ok(None),
            };
            let line = self.line_of_text("[tokenizer]");
            return Err(self.error(line, problem.to_owned(), "Add file = \"tokenizer.json\" beside it"));
        };
        if !matches!(counter, Counter::File | Counter::Auto) {
            let what = "file: this counter does not read it".to_owned();
            return Err(self.error(self.line_of_text(name), what, "Use counter = \"file\", or leave file out"));
        }
        let template = template.as_ref().map(|name| self.chat_template(name)).transpose()?;
        let bytes = self.read(name, name)?;
        let read = TokenizerFile::read(&bytes, template);
        let tokenizer = read.map_err(|e| {
            let cure = "Take the tokenizer.json that is published with the model";
            self.error(self.line_of_text(name), format!("{name} is no tokenizer: {e}"), cure)
        })?;
        Ok(Some(Arc::new(tokenizer)))
    }

    fn chat_template(&mut self, name: &str) -> Result<ChatTemplate, SuiteError> {
        let bytes = self.read(name, name)?;
        let template = match name.ends_with(".json") {
            true => ChatTemplate::from_config(&bytes),
            // Its first and last token are unknown then; templates that write them want the config.
            false => ChatTemplate::new(String::from_utf8_lossy(&bytes).into_owned(), "", ""),
        };
        template.map_err(|e| {
            let cure = "Take the model's tokenizer_config.json, or its chat template as a .jinja file";
            self.error(self.line_of_text(name), format!("{name}: {e}"), cure)
        })
    }
}
