//! What a page for people says: title, headings, text, a sign-in form.

use crate::form::text::squeeze;
use crate::form::xml::{Scanner, Token, local_name};
use crate::kvp::{contains_ignore_case, find_ignore_case};

/// A page, as far as it was read.
#[derive(Clone, Debug, Default)]
pub struct Page {
    pub(crate) title: String,
    pub(crate) heading: String,
    pub(crate) text: String,
    pub(crate) asks_for_password: bool,
}

impl Page {
    /// The title, empty where there is none.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The first heading, empty where there is none.
    pub fn heading(&self) -> &str {
        &self.heading
    }

    /// The text, without markup, scripts and styles.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it holds a field for a password.
    pub fn asks_for_password(&self) -> bool {
        self.asks_for_password
    }

    pub(crate) fn read(html: &str) -> Self {
        let bytes = html.as_bytes();
        let mut page = Self::default();
        let mut scanner = Scanner::default();
        let mut within = Within::Text;
        let mut text = String::new();
        loop {
            let (range, last) = match scanner.next(bytes) {
                Some(Token::Text(range)) => (range, false),
                Some(Token::CData(range)) => (range, false),
                Some(Token::Start {
                    name,
                    attributes,
                    empty,
                }) => {
                    let name = local_name(&bytes[name]).to_ascii_lowercase();
                    match name.as_slice() {
                        b"title" if !empty => within = Within::Title,
                        b"h1" | b"h2" | b"h3" if !empty && page.heading.is_empty() => {
                            within = Within::Heading;
                        }
                        b"noscript" if !empty => within = Within::Nothing,
                        // Their content is not markup (HTML §13.1.2.1).
                        b"script" | b"style" if !empty => {
                            let end = if name == b"script" {
                                "</script"
                            } else {
                                "</style"
                            };
                            let at = scanner.position();
                            let found = find_ignore_case(&bytes[at..], end)
                                .map_or(bytes.len(), |found| at + found);
                            scanner = Scanner::starting_at(found);
                        }
                        b"input" => {
                            let attributes = bytes[attributes].to_ascii_lowercase();
                            page.asks_for_password |=
                                memchr::memmem::find(&attributes, b"password").is_some();
                        }
                        b"br" | b"p" | b"div" | b"li" | b"td" | b"tr" => text.push(' '),
                        _ => {}
                    }
                    continue;
                }
                Some(Token::End { name }) => {
                    let name = bytes[name].to_ascii_lowercase();
                    match name.as_slice() {
                        b"title" | b"h1" | b"h2" | b"h3" | b"noscript" => within = Within::Text,
                        b"p" | b"div" | b"li" | b"td" | b"tr" | b"pre" => text.push(' '),
                        _ => {}
                    }
                    continue;
                }
                Some(_) => continue,
                None => (scanner.rest(bytes), true),
            };
            let piece = html.get(range).unwrap_or_default();
            match within {
                // What is left at the end and begins with `<` is a tag that was cut off.
                _ if last && piece.starts_with('<') => {}
                // A heading that was cut off may go on as anything.
                Within::Title | Within::Heading if last => {}
                Within::Text => text.push_str(piece),
                Within::Title => page.title.push_str(piece),
                Within::Heading => {
                    page.heading.push_str(piece);
                    text.push(' ');
                    text.push_str(piece);
                    text.push(' ');
                }
                Within::Nothing => {}
            }
            if last {
                break;
            }
        }
        page.title = squeeze(&entities(&page.title));
        page.heading = squeeze(&entities(&page.heading));
        page.text = squeeze(&entities(&text));
        page
    }

    /// The status that the page is about, where its title or first heading is that of an error page.
    pub(crate) fn status(&self) -> Option<u16> {
        let by_heading = || status_in(&self.heading).filter(|_| !self.has_title_of_its_own());
        status_in(&self.title).or_else(by_heading)
    }

    /// A page that is titled as something else only speaks of errors.
    pub(crate) fn has_title_of_its_own(&self) -> bool {
        let is_error = ERRORS
            .iter()
            .any(|word| contains_ignore_case(self.title.as_bytes(), word));
        !self.title.is_empty() && !is_error
    }

    /// Title, heading and text in one.
    pub(crate) fn words(&self) -> String {
        let mut words = self.title.clone();
        if !self.text.is_empty() && self.text != self.title {
            if !words.is_empty() {
                words.push_str(": ");
            }
            words.push_str(
                self.text
                    .strip_prefix(self.title.as_str())
                    .unwrap_or(&self.text)
                    .trim_start(),
            );
        }
        words
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Text,
    Title,
    Heading,
    Nothing,
}

/// The 4xx or 5xx that a short heading names: `502 Bad Gateway`, `HTTP Status 503`, `Error 500`, `host | 522: …`.
fn status_in(heading: &str) -> Option<u16> {
    if heading.len() > 120 {
        return None;
    }
    let mut words = heading
        .split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let mut before = None;
    while let Some(word) = words.next() {
        if word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit()) {
            let number: u16 = word.parse().ok()?;
            let named = before.is_some_and(|before: &str| {
                ["error", "status", "http", "code", "erreur", "fehler"]
                    .iter()
                    .any(|word| before.eq_ignore_ascii_case(word))
            });
            // At the very start, or after a host's name: `maps.example.org | 522: Connection timed out`.
            let lead = heading[..word.as_ptr() as usize - heading.as_ptr() as usize].trim_end();
            let begins = lead.is_empty() || lead.ends_with(['|', '-', '–', '—']);
            let after = words.clone().next();
            let reason = after.is_some_and(|after| {
                REASONS
                    .iter()
                    .any(|reason| after.eq_ignore_ascii_case(reason))
            });
            if (400..600).contains(&number) && (named || begins && (reason || after.is_none())) {
                return Some(number);
            }
        }
        before = Some(word);
    }
    None
}

/// What the titles of error pages contain.
const ERRORS: &[&str] = &[
    "error",
    "http",
    "gateway",
    "unavailable",
    "not found",
    "forbidden",
    "denied",
    "problem",
    "sorry",
    "oops",
    "proxy",
    "tomcat",
    "geoserver",
    "geowebcache",
    "request",
    "server",
];

/// First words of the phrases that follow a status (RFC 9110 §15, and what proxies write).
const REASONS: &[&str] = &[
    "bad",
    "unauthorized",
    "payment",
    "forbidden",
    "not",
    "method",
    "proxy",
    "request",
    "conflict",
    "gone",
    "length",
    "precondition",
    "content",
    "payload",
    "uri",
    "url",
    "unsupported",
    "requested",
    "range",
    "too",
    "internal",
    "service",
    "gateway",
    "http",
    "insufficient",
    "error",
    "web",
    "connection",
    "origin",
    "ssl",
    "server",
    "access",
    "temporarily",
    "backend",
    "no",
    "unable",
    "authorization",
    "gwc",
    "unavailable",
    "time",
    "timeout",
    "site",
    "upstream",
    "invalid",
];

/// Replaces the entities that error pages use; others stay as they are.
pub(crate) fn entities(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|byte| byte == b';');
        let replaced = end.and_then(|end| entity(&rest[1..end]).map(|character| (character, end)));
        match replaced {
            Some((character, end)) => {
                plain.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        "uuml" => Some('ü'),
        "ouml" => Some('ö'),
        "auml" => Some('ä'),
        "eacute" => Some('é'),
        _ => {
            let number = name.strip_prefix('#')?;
            let number = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(number)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_heading_text_and_password_field_are_read() {
        let page = Page::read(
            "<!DOCTYPE html><HTML><head><Title> Sign\n in </Title><style>p{}</style></head><body><h1>Hello &amp; &#115;o</h1>\
             <script>if (a < b) {}</script><p>Please<br>sign in<input TYPE='password'></body></html>",
        );
        assert_eq!((page.title(), page.heading()), ("Sign in", "Hello & so"));
        assert_eq!(page.text(), "Hello & so Please sign in");
        assert!(page.asks_for_password());
    }

    #[test]
    fn the_status_a_page_is_about_is_read_off_its_heading() {
        for (heading, status) in [
            ("502 Bad Gateway", Some(502)),
            ("HTTP Status 503 – Service Unavailable", Some(503)),
            ("Error 500", Some(500)),
            ("400: GWC Error", Some(400)),
            ("maps.example.org | 522: Connection timed out", Some(522)),
            ("403 ERROR", Some(403)),
            ("404", Some(404)),
            ("Layers 400 to 500 of the topographic map", None),
            ("500 Years of Cartography", None),
            ("Route 404", None),
            ("Error codes: 502 Bad Gateway, 429", None),
            ("Sign in", None),
        ] {
            assert_eq!(status_in(heading), status, "{heading}");
        }
    }
}
