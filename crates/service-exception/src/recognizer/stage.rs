//! How far a head has been read, and as what.

use std::sync::LazyLock;

use memchr::memmem;

use super::suspicion::Suspicion;
use super::{Recognizer, tables};
use crate::form::json;
use crate::form::text;
use crate::form::xml::{self, Token, local_name};
use crate::kvp::find_ignore_case;

#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) failed: bool,
    pub(super) own: bool,
    /// No JSON is good before all of it was read.
    pub(super) careful: bool,
    pub(super) limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    More,
    Clean,
    /// The dialects have to be asked.
    Judge,
    /// The document ends here, and the dialects have to be asked about it.
    Closed(usize),
    /// Only where an image was asked for do the dialects have to be asked.
    Ask,
}

/// How far the head has been read, and as what.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Nothing but blanks.
    Start {
        blanks: usize,
    },
    /// XML before its root.
    Prolog {
        scanner: xml::Scanner,
    },
    /// XML that may be a failure as a whole: read to its end.
    Report {
        scanner: xml::Scanner,
        depth: usize,
    },
    /// XML that began well: a report may stand in it.
    Watch {
        from: usize,
        searched: usize,
        found: bool,
        known: bool,
    },
    Html {
        searched: usize,
    },
    Json {
        from: usize,
        scanner: json::Scanner,
        suspicion: Suspicion,
    },
    Text {
        call: bool,
    },
}

impl Stage {
    pub(super) const START: Self = Self::Start { blanks: 0 };

    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Self::Json { suspicion, .. } if suspicion.broken)
    }

    /// Reads on from where the last call ended; `head` begins as it began then.
    pub(super) fn scan(&mut self, head: &[u8], context: Context) -> Step {
        loop {
            match self {
                Self::Start { blanks } => {
                    if head.len() < 4 && text::may_be_utf16(head) {
                        return Step::More;
                    }
                    let from = match head {
                        [0xEF] | [0xEF, 0xBB] => return Step::More,
                        [0xEF, 0xBB, 0xBF, ..] => 3,
                        _ => 0,
                    };
                    let rest = &head[from + *blanks..];
                    let is_blank = |byte: &&u8| xml::is_blank(**byte) || **byte == 0x0C;
                    *blanks += rest.iter().take_while(is_blank).count();
                    let at = from + *blanks;
                    *self = match head.get(at) {
                        None => return Step::More,
                        Some(b'<') => Self::Prolog {
                            scanner: xml::Scanner::starting_at(at),
                        },
                        Some(b'{' | b'[') => Self::json(at),
                        Some(_) => Self::Text { call: true },
                    };
                }
                Self::Prolog { scanner } => {
                    let at = scanner.position();
                    if let Some(name) = root_name(head, at) {
                        let Some(name) = name else { return Step::More };
                        *self = Self::by_root(&head[name.clone()], at, name.end, context);
                        continue;
                    }
                    match scanner.next(head) {
                        None => return Step::More,
                        Some(Token::Doctype(range)) if is_html_doctype(&head[range.clone()]) => {
                            *self = Self::Html {
                                searched: range.end,
                            }
                        }
                        Some(Token::Text(range))
                            if !head[range.clone()].iter().all(|&byte| xml::is_blank(byte)) =>
                        {
                            *self = Self::Text { call: false };
                        }
                        Some(_) => {}
                    }
                }
                Self::Report { scanner, depth } => loop {
                    match scanner.next(head) {
                        None => return Step::More,
                        Some(Token::Start { empty: false, .. }) => *depth += 1,
                        Some(Token::Start { .. }) if *depth == 0 => {
                            return Step::Closed(scanner.position());
                        }
                        Some(Token::End { .. }) => {
                            *depth = depth.saturating_sub(1);
                            if *depth == 0 {
                                return Step::Closed(scanner.position());
                            }
                        }
                        Some(_) => {}
                    }
                },
                Self::Watch {
                    from,
                    searched,
                    found,
                    known,
                } => {
                    if !*found {
                        let begin = searched
                            .saturating_sub(REPORT.needle().len() - 1)
                            .max(*from);
                        *found = REPORT.find(&head[begin.min(head.len())..]).is_some();
                        *searched = head.len();
                    }
                    let full = head.len() >= context.limit;
                    return match (full, *found || context.own, *known) {
                        (false, ..) => Step::More,
                        (true, true, _) => Step::Judge,
                        (true, false, true) => Step::Clean,
                        (true, false, false) => Step::Ask,
                    };
                }
                Self::Html { searched } => {
                    let begin = searched.saturating_sub(b"</html".len());
                    if let Some(at) = find_ignore_case(&head[begin..], "</html") {
                        return Step::Closed(begin + at);
                    }
                    *searched = head.len();
                    return Step::More;
                }
                Self::Json {
                    scanner, suspicion, ..
                } => {
                    return scan_json(head, scanner, suspicion, context);
                }
                Self::Text { call } => {
                    if *call {
                        match jsonp(head) {
                            Call::Maybe => return Step::More,
                            Call::No => *call = false,
                            Call::Json(at) => {
                                *self = Self::json(at);
                                continue;
                            }
                        }
                    }
                    return if head.len() >= 16 && Recognizer::is_plainly_binary(head) {
                        Step::Clean
                    } else {
                        Step::More
                    };
                }
            }
        }
    }

    /// What a head means that nothing more will be added to, and that [`scan`](Self::scan) wanted more of.
    pub(super) fn end(&mut self, head: &[u8], context: Context, ended: bool) -> Step {
        let binary = Recognizer::is_plainly_binary(head);
        match self {
            Self::Start { .. } if ended && head.iter().all(u8::is_ascii_whitespace) => Step::Judge,
            Self::Start { .. } => Step::Clean,
            Self::Prolog { .. } if context.failed || context.own => Step::Judge,
            Self::Prolog { .. } => Step::Clean,
            Self::Report { .. } | Self::Html { .. } => Step::Judge,
            Self::Watch { found, .. } if *found || context.own => Step::Judge,
            Self::Watch { known: true, .. } => Step::Clean,
            Self::Watch { .. } => Step::Ask,
            Self::Json {
                scanner, suspicion, ..
            } => {
                if let Some((key, value)) = scanner.open_member(head) {
                    suspicion.weigh(&head[key], &head[value]);
                }
                if suspicion.is_left() || context.careful {
                    Step::Judge
                } else {
                    Step::Ask
                }
            }
            Self::Text { .. } if binary => Step::Clean,
            // Too little to tell words from data.
            Self::Text { .. } if !ended && head.len() < 16 && !context.failed => Step::Clean,
            Self::Text { .. } => Step::Judge,
        }
    }

    fn json(from: usize) -> Self {
        Self::Json {
            from,
            scanner: json::Scanner::starting_at(from),
            suspicion: Suspicion::default(),
        }
    }

    fn by_root(name: &[u8], at: usize, from: usize, context: Context) -> Self {
        let local = local_name(name);
        let watch = |known| Self::Watch {
            from,
            searched: from,
            found: false,
            known,
        };
        if !context.failed && tables::KNOWN.contains(&local) {
            return watch(true);
        }
        if is_html(local) {
            Self::Html { searched: at }
        } else if context.failed
            || tables::SUSPECTS.contains(&local)
            || context.own && local.is_empty()
        {
            Self::Report {
                scanner: xml::Scanner::starting_at(at),
                depth: 0,
            }
        } else {
            watch(false)
        }
    }
}

/// Reads JSON until it is known to be good, or closed.
fn scan_json(
    head: &[u8],
    scanner: &mut json::Scanner,
    suspicion: &mut Suspicion,
    context: Context,
) -> Step {
    loop {
        let Some(event) = scanner.next(head) else {
            return Step::More;
        };
        if scanner.is_array() && !context.careful {
            return Step::Clean;
        }
        let is_good = !context.careful && !suspicion.is_serious();
        match event {
            // Nothing that comes after the features can make a failure of them.
            json::Event::Opened { key, first: b'[' }
                if is_good && &head[key.clone()] == b"features" =>
            {
                return Step::Clean;
            }
            json::Event::Opened { .. } => {}
            json::Event::Member { key, value } => {
                let (key, value) = (&head[key], &head[value]);
                if is_good && key == b"type" && tables::GEOJSON.contains(&value) {
                    return Step::Clean;
                }
                suspicion.weigh(key, value);
            }
            json::Event::Closed if suspicion.is_left() || context.careful => {
                return Step::Closed(scanner.position());
            }
            json::Event::Closed => return Step::Ask,
            // What it is instead shows when all of it is there.
            json::Event::Broken => suspicion.broken = true,
        }
    }
}

/// `Some(None)`: a start tag begins, its name is not complete. `None`: no start tag begins here.
fn root_name(head: &[u8], at: usize) -> Option<Option<std::ops::Range<usize>>> {
    match head.get(at..)? {
        [b'<', b'?' | b'!' | b'/', ..] => None,
        [b'<', rest @ ..] => {
            let length = rest
                .iter()
                .position(|&byte| xml::is_blank(byte) || matches!(byte, b'>' | b'/'));
            Some(length.map(|length| at + 1..at + 1 + length))
        }
        _ => None,
    }
}

fn is_html_doctype(doctype: &[u8]) -> bool {
    let rest = doctype
        .get("doctype".len()..)
        .unwrap_or_default()
        .trim_ascii_start();
    rest.len() >= 4 && rest[..4].eq_ignore_ascii_case(b"html")
}

fn is_html(local: &[u8]) -> bool {
    local.len() <= 8
        && tables::HTML
            .iter()
            .any(|name| local.eq_ignore_ascii_case(name.as_bytes()))
}

enum Call {
    Maybe,
    No,
    Json(usize),
}

/// `callback({…})`, with or without a comment before it.
fn jsonp(head: &[u8]) -> Call {
    let mut at = head.iter().take_while(|&&byte| xml::is_blank(byte)).count();
    let comment = b"/**/";
    let rest = &head[at..];
    if rest.len() < comment.len() && comment.starts_with(rest) {
        return Call::Maybe;
    }
    if rest.starts_with(comment) {
        at += comment.len();
        at += head[at..]
            .iter()
            .take_while(|&&byte| xml::is_blank(byte))
            .count();
    }
    let name = head[at..]
        .iter()
        .take(65)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.'))
        .count();
    if name == 65 || name > 0 && head[at].is_ascii_digit() {
        return Call::No;
    }
    let rest = &head[at + name..];
    match rest {
        [] => Call::Maybe,
        [b'(', inner @ ..] if name > 0 => {
            let blanks = inner
                .iter()
                .take_while(|&&byte| xml::is_blank(byte))
                .count();
            match inner.get(blanks) {
                None => Call::Maybe,
                Some(b'{' | b'[') => Call::Json(at + name + 1 + blanks),
                Some(_) => Call::No,
            }
        }
        _ => Call::No,
    }
}

static REPORT: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new("ExceptionReport"));
