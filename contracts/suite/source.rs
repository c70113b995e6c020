//! Where a suite's files are: a folder, or the binary. It reads files by their path inside the suite and never outside
//! of it.

use std::path::{Component, Path, PathBuf};

use include_dir::{Dir, include_dir};

use super::SuiteError;

pub(crate) const SUITE_FILE: &str = "suite.toml";

static SHIPPED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/suites");

#[derive(Debug, Clone)]
pub(crate) enum Source {
    Folder(PathBuf),
    Shipped(&'static str),
}

impl Source {
    pub(crate) fn shipped(name: &str) -> Result<Source, SuiteError> {
        shipped_dirs().find(|(found, _)| *found == name).map(|(found, _)| Source::Shipped(found)).ok_or_else(|| {
            SuiteError {
                file: name.chars().take(80).collect(),
                line: None,
                column: None,
                what: "there is no such suite".to_owned(),
                cure: format!("Shipped suites: {}. Others stand under contracts.dir", shipped_names().join(", ")),
            }
        })
    }

    /// The name of the suite's folder.
    pub(crate) fn folder_name(&self) -> String {
        match self {
            Source::Shipped(name) => (*name).to_owned(),
            // `.` has no file name of its own.
            Source::Folder(path) => path
                .canonicalize()
                .ok()
                .as_deref()
                .and_then(Path::file_name)
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        if let Source::Folder(path) = self { Some(path) } else { None }
    }

    /// How a file of the suite is called in messages.
    pub(crate) fn shown(&self, file: &str) -> String {
        match self {
            Source::Folder(path) => path.join(file).display().to_string(),
            Source::Shipped(name) => format!("(shipped) {name}/{file}"),
        }
    }

    /// The bytes of a file of the suite; `Err` says why not.
    pub(crate) fn read(&self, file: &str) -> Result<Vec<u8>, String> {
        let path = Path::new(file);
        if file.is_empty() || !path.components().all(|c| matches!(c, Component::Normal(_))) {
            return Err("the path leaves the suite's folder".to_owned());
        }
        match self {
            Source::Folder(folder) => std::fs::read(folder.join(path)).map_err(|e| e.to_string()),
            Source::Shipped(name) => SHIPPED
                .get_file(Path::new(name).join(path))
                .map(|f| f.contents().to_vec())
                .ok_or_else(|| "no such file".to_owned()),
        }
    }
}

fn shipped_dirs() -> impl Iterator<Item = (&'static str, &'static Dir<'static>)> {
    SHIPPED.dirs().filter_map(|dir| {
        let name = dir.path().to_str()?;
        dir.contains(dir.path().join(SUITE_FILE)).then_some((name, dir))
    })
}

pub(super) fn shipped_names() -> Vec<String> {
    let mut names: Vec<String> = shipped_dirs().map(|(name, _)| name.to_owned()).collect();
    names.sort();
    names
}

pub(super) fn list(dir: &Path) -> Result<Vec<String>, SuiteError> {
    let error = |e: std::io::Error| SuiteError {
        file: dir.display().to_string(),
        line: None,
        column: None,
        what: format!("the folder of suites cannot be read: {e}"),
        cure: "Set contracts.dir to a folder that holds one folder a suite".to_owned(),
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(error)? {
        let entry = entry.map_err(error)?;
        if entry.path().join(SUITE_FILE).is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}
