#![doc = include_str!("config.md")]
#![doc = include_str!("keys.md")]

mod block;
mod check;
mod error;
mod keys;
mod read;
#[cfg(test)]
mod schema;
mod tree;
mod value;

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error as _};

pub use block::{Block, Completeness, Key, Rate, Switch, Text};
pub use error::{Problem, SettingsError};

use crate::{EndpointSettings, Endpoints, EndpointsBuilder};
use keys::BLOCK;
use tree::{Node, Place};

/// A settings file, read and checked.
///
/// It is [`Deserialize`], for other formats than YAML; errors then have no line.
#[derive(Clone, Debug, Default)]
pub struct SettingsFile {
    file: Option<Box<str>>,
    endpoints: Vec<(Box<str>, Block)>,
    defaults: Block,
    unknown_hosts: UnknownHosts,
}

/// What a settings file says of hosts that no endpoint names.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum UnknownHosts {
    /// Nothing: the defaults hold for them.
    #[default]
    Defaults,
    /// This, and the defaults where it says nothing.
    Block(Box<Block>),
    /// That no request goes to them.
    Refuse,
}

/// What holds for one endpoint, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Effective {
    /// The endpoint; `None` for hosts that no endpoint names.
    pub endpoint: Option<String>,
    /// A row for each key, in the order of the table.
    pub rows: Vec<EffectiveRow>,
}

/// One key of [`Effective`] settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectiveRow {
    /// The key.
    pub key: &'static str,
    /// Its value, as a file could say it; references to the environment as they stand there.
    pub value: String,
    /// Who says so.
    pub source: Source,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The endpoint's own block.
    Own,
    /// The file's `defaults`.
    Defaults,
    /// No file: the table of defaults.
    BuiltIn,
}

/// The JSON schema (draft 2020-12) of settings files, for editors.
pub const SCHEMA: &str = include_str!("../../settings.schema.json");

impl SettingsFile {
    /// Reads a YAML file. `${NAME}` in values stands for the environment's.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its line and what was expected.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let refuse = |problem: String| SettingsError::one(Some(&name), Place::default(), problem);
        let read = std::fs::metadata(path).and_then(|metadata| match metadata.len() {
            LONGEST_FILE.. => Ok(None),
            _ => std::fs::read(path).map(Some),
        });
        let bytes = read
            .map_err(|error| refuse(format!("cannot be read: {error}")))?
            .ok_or_else(|| refuse("more than 64 MiB, which is no settings file".to_owned()))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let before = String::from_utf8_lossy(&error.as_bytes()[..at]);
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
            let place = Place {
                line: u32::try_from(line).unwrap_or(u32::MAX),
                column: u32::try_from(column).unwrap_or(u32::MAX),
            };
            SettingsError::one(Some(&name), place, "a byte that is no UTF-8")
        })?;
        Self::from_yaml(&text, &name)
    }

    /// Reads YAML, JSON included; errors call it `name`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_yaml(text: &str, name: &str) -> Result<Self, SettingsError> {
        Self::from_yaml_with(text, name, |variable| std::env::var(variable).ok())
    }

    /// The same with another environment.
    ///
    /// ```
    /// use tower_spatial::config::SettingsFile;
    ///
    /// let text = "endpoints: {geocoder: {hosts: ['${GEOCODER}'], concurrency: 1}}";
    /// let file = SettingsFile::from_yaml_with(text, "endpoints.yaml", |name| {
    ///     (name == "GEOCODER").then(|| "api.geocoder.example".to_owned())
    /// })?;
    /// let geocoder = file.endpoint("geocoder").unwrap();
    /// assert_eq!(geocoder.hosts[0].as_str(), "api.geocoder.example");
    /// assert_eq!(geocoder.hosts[0].to_string(), "${GEOCODER}");
    /// # Ok::<(), tower_spatial::config::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_yaml_with(
        text: &str,
        name: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingsError> {
        let root = Node::of_yaml(text)
            .map_err(|broken| SettingsError::one(Some(name), broken.place, broken.problem))?;
        read::read(&root, Some(name), &environment)
    }

    /// The endpoints with their own blocks, in the order of the file.
    pub fn endpoints(&self) -> impl Iterator<Item = (&str, &Block)> {
        self.endpoints.iter().map(|(name, block)| (&**name, block))
    }

    /// The own block of one of them.
    pub fn endpoint(&self, name: &str) -> Option<&Block> {
        let found = self.endpoints().find(|(of, _)| *of == name);
        found.map(|(_, block)| block)
    }

    /// What holds where an endpoint's own block says nothing; see [`Block::or`].
    pub fn defaults(&self) -> &Block {
        &self.defaults
    }

    /// What holds for hosts that no endpoint names.
    pub fn unknown_hosts(&self) -> &UnknownHosts {
        &self.unknown_hosts
    }

    /// What can be but is probably not meant, in the order of the file.
    ///
    /// ```
    /// use tower_spatial::config::SettingsFile;
    ///
    /// let text = "endpoints: {wfs: {read_timeout: 180, healthy_p99: 400}}";
    /// let warnings = SettingsFile::from_yaml(text, "endpoints.yaml")?.warnings();
    /// assert!(warnings[0].message().contains("below 1.2 x healthy_p99 400s"));
    /// # Ok::<(), tower_spatial::config::SettingsError>(())
    /// ```
    pub fn warnings(&self) -> Vec<Problem> {
        check::warnings(self)
    }

    /// What holds for each endpoint, and last for the hosts that none names.
    pub fn effective(&self) -> Vec<Effective> {
        let nothing = Block::default();
        let mut blocks: Vec<_> = self
            .endpoints()
            .map(|(name, block)| (Some(name.to_owned()), block))
            .collect();
        match &self.unknown_hosts {
            UnknownHosts::Defaults => blocks.push((None, &nothing)),
            UnknownHosts::Block(block) => blocks.push((None, block)),
            UnknownHosts::Refuse => {}
        }
        let effective = blocks.into_iter().map(|(endpoint, block)| {
            let whole = block.or(&self.defaults);
            let row = |row: &keys::Row| {
                let (value, source) = match whole.shown(row.name) {
                    Some(value) if block.shown(row.name).is_some() => (value, Source::Own),
                    Some(value) => (value, Source::Defaults),
                    None if row.name == "concurrency" && whole.is_adaptive() => {
                        ("as `adaptive` finds".to_owned(), Source::BuiltIn)
                    }
                    None => (row.default.to_owned(), Source::BuiltIn),
                };
                EffectiveRow {
                    key: row.name,
                    value,
                    source,
                }
            };
            Effective {
                rows: BLOCK.iter().map(row).collect(),
                endpoint,
            }
        });
        effective.collect()
    }

    /// The endpoints to build, or to [reload](Endpoints::reload).
    pub fn builder(&self) -> EndpointsBuilder {
        let of = |block: &Block| block.or(&self.defaults).apply(EndpointSettings::new());
        let mut builder =
            Endpoints::builder().defaults(self.defaults.apply(EndpointSettings::new()));
        for (name, block) in self.endpoints() {
            // Where `adaptive: false` sets aside what the defaults say, the table holds.
            let mut settings = of(block);
            if matches!(block.adaptive, Some(Switch::Off)) && block.concurrency.is_none() {
                settings = settings.concurrency(self.defaults.concurrency.unwrap_or(16));
            }
            builder = builder.endpoint(name, block.hosts.iter().map(Text::as_str), settings);
        }
        match &self.unknown_hosts {
            UnknownHosts::Defaults => builder,
            UnknownHosts::Block(block) => builder.unknown_hosts(of(block)),
            UnknownHosts::Refuse => builder.refuse_unknown_hosts(),
        }
    }

    /// The endpoints.
    ///
    /// # Errors
    /// None that reading did not find already.
    pub fn build(&self) -> Result<Endpoints, SettingsError> {
        self.builder().build().map_err(|error| {
            let block = error.endpoint().and_then(|name| self.endpoint(name));
            let place = block.map(|block| block.place(error.setting()));
            SettingsError::one(
                self.file.as_deref(),
                place.unwrap_or_default(),
                error.to_string(),
            )
        })
    }
}

impl<'de> Deserialize<'de> for SettingsFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let root = Node::deserialize(deserializer)?;
        read::read(&root, None, &|variable| std::env::var(variable).ok()).map_err(D::Error::custom)
    }
}

impl Endpoints {
    /// The endpoints of a settings file; see [`config`](crate::config).
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its line and what was expected.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        SettingsFile::load(path)?.build()
    }

    /// The endpoints of a text in YAML, which errors call `name`; see [`config`](crate::config).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_yaml(text: &str, name: &str) -> Result<Self, SettingsError> {
        SettingsFile::from_yaml(text, name)?.build()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "",
            Self::Defaults => "defaults",
            Self::BuiltIn => "built in",
        })
    }
}

const LONGEST_FILE: u64 = 64 << 20;
