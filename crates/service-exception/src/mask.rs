//! Messages without control characters and without secrets.

use crate::ServiceException;
use crate::kvp::contains_ignore_case;

/// `text` on one line, with the values of credentials masked, at most [`ServiceException::LONGEST_MESSAGE`] characters.
pub(crate) fn message(text: &str) -> String {
    // Masked before it is cut, so that no cut leaves half a secret; cut before that to keep the work small.
    let bounded = &text[..floor(text, 4096)];
    let plain = crate::form::text::squeeze(bounded);
    let mut masked = credentials(&plain);
    // User information of which the text ends before its `@`: nothing says that it is not a host.
    if let Some(at) = masked.rfind("://")
        && let Some((_, password)) = masked[at + 3..].split_once(':')
        && !password.is_empty()
        && !password.bytes().all(|byte| byte.is_ascii_digit())
        && !password.contains(['/', ' ', '?', '#', '@', '"', '\''])
    {
        masked.truncate(at + 3);
        masked.push_str("***");
    }
    if let Some((at, _)) = masked.char_indices().nth(ServiceException::LONGEST_MESSAGE) {
        masked.truncate(at);
    }
    masked
}

/// A code or locator: on one line, at most 120 characters.
pub(crate) fn short(text: &str) -> Box<str> {
    let plain = crate::form::text::squeeze(&text[..floor(text, 1024)]);
    credentials(&plain)
        .chars()
        .take(120)
        .collect::<String>()
        .into()
}

/// Replaces `key=value` and `key: value` where the key names a credential, user info in URLs, and bearer tokens.
fn credentials(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['=', ':']) {
        let (before, after) = rest.split_at(at + 1);
        masked.push_str(before);
        rest = after;
        let name_end = before[..before.len() - 1].trim_end_matches(' ').len();
        let name_start = before[..name_end]
            .rfind(|character: char| {
                !(character.is_ascii_alphanumeric()
                    || matches!(character, '_' | '-' | '.' | '"' | '\''))
            })
            .map_or(0, |at| {
                at + before[at..].chars().next().map_or(1, char::len_utf8)
            });
        let name = before[name_start..name_end].trim_matches(['"', '\'']);
        let is_equals = before.ends_with('=');
        let is_quoted = before[..name_end].ends_with(['"', '\'']);
        let is_secret = match is_equals || is_quoted {
            true => is_secret(name),
            false => is_secret_header(name),
        };
        if is_secret {
            let blank = rest.len() - rest.trim_start_matches([' ', '"', '\'']).len();
            masked.push_str(&rest[..blank]);
            rest = &rest[blank..];
            for scheme in ["Bearer ", "Basic ", "bearer ", "basic "] {
                rest = rest.strip_prefix(scheme).unwrap_or(rest);
            }
            // A quoted value ends with its quote, whatever it holds; a cookie header holds several.
            let is_cookie = contains_ignore_case(name.as_bytes(), "cookie");
            let ends: &[char] = match masked.chars().next_back() {
                _ if is_cookie => &['\n'],
                Some('\'') => &['\''],
                Some('"') => &['"'],
                _ => &['&', ' ', '"', '\'', ',', ';', ')', '>', '<', '}', ']', '|'],
            };
            let length = rest.find(ends).unwrap_or(rest.len());
            if length > 0 {
                masked.push_str("***");
                rest = &rest[length..];
            }
        } else if !is_equals && rest.starts_with("//") {
            let authority = rest[2..]
                .find(['/', ' ', '?', '#', '"', '\''])
                .map_or(rest.len(), |at| at + 2);
            if let Some(at) = rest[..authority].rfind('@') {
                masked.push_str("//***");
                rest = &rest[at..];
            }
        }
    }
    masked.push_str(rest);
    bearer(masked)
}

/// Masks what follows the word `Bearer` or `Basic` (RFC 6750 §2.1, RFC 7617 §2), wherever it stands, and the part before
/// an `@` in what an Oracle connection is called: `OCI:scott/tiger@db`, `jdbc:oracle:thin:scott/tiger@//db`.
fn bearer(text: String) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut scheme = false;
    for (number, word) in text.split(' ').enumerate() {
        if number > 0 {
            masked.push(' ');
        }
        let bare = word.trim_matches(['"', '\'', ',', ';', '.', ':']);
        // A word of prose is no token.
        if scheme && bare.len() >= 16 {
            masked.push_str(&word.replace(bare, "***"));
        } else if let Some((user, host)) = word.rsplit_once('@')
            && user.contains('/')
            && user.contains(':')
            && !user.contains("//")
        {
            let shown = user.rfind(':').map_or(0, |at| at + 1);
            masked.push_str(&user[..shown]);
            masked.push_str("***@");
            masked.push_str(host);
        } else {
            masked.push_str(word);
        }
        scheme = bare.eq_ignore_ascii_case("bearer") || bare.eq_ignore_ascii_case("basic");
    }
    masked
}

fn is_secret(name: &str) -> bool {
    const SECRETS: &[&str] = &[
        "key",
        "token",
        "password",
        "passwd",
        "pwd",
        "secret",
        "signature",
        "credential",
        "authorization",
        "sig",
        "auth",
        "session",
        "apikey",
        "appid",
        "app_id",
        "app_code",
        "jwt",
        "subscription",
        "sas",
    ];
    // `key` within a word counts where it ends it: `apiKey`, `access-key`, `app_key`, not `keyword`.
    let name = name.as_bytes();
    SECRETS.iter().any(|secret| match *secret {
        "key" | "sig" | "auth" | "sas" | "session" | "subscription" => {
            name.len() >= secret.len()
                && name[name.len() - secret.len()..].eq_ignore_ascii_case(secret.as_bytes())
        }
        _ => contains_ignore_case(name, secret),
    }) || contains_ignore_case(name, "username")
        || name.eq_ignore_ascii_case(b"user")
}

fn is_secret_header(name: &str) -> bool {
    [
        "authorization",
        "token",
        "password",
        "apikey",
        "api_key",
        "api-key",
        "secret",
        "x-api-key",
        "cookie",
    ]
    .iter()
    .any(|secret| contains_ignore_case(name.as_bytes(), secret))
}

fn floor(text: &str, most: usize) -> usize {
    (0..=most.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_a_message_are_masked() {
        for (text, masked) in [
            (
                "no image from http://a/wms?layers=x&access_token=s3cret&key=abc&bbox=1",
                "no image from http://a/wms?layers=x&access_token=***&key=***&bbox=1",
            ),
            (
                "could not connect: postgresql://joe:pw@db/x failed",
                "could not connect: postgresql://***@db/x failed",
            ),
            (
                "host=db user=joe password='pa ss' dbname=x",
                "host=db user=*** password='***' dbname=x",
            ),
            (
                "Authorization: Bearer abc.def rejected",
                "Authorization: *** rejected",
            ),
            (
                "rejected: bearer eyJhbGciOiJIUzI1NiJ9.e30.x is old",
                "rejected: bearer *** is old",
            ),
            ("password = X1 refused", "password = *** refused"),
            (
                r#"{"password" : "X1", "a": 1}"#,
                r#"{"password" : "***", "a": 1}"#,
            ),
            (r#"{"key":"X1"}"#, r#"{"key":"***"}"#),
            ("Set-Cookie: sid=X1; Path=/", "Set-Cookie: ***"),
            ("Cookie: a=b; sid=X1", "Cookie: ***"),
            ("OCI:scott/X1@orcl is down", "OCI:***@orcl is down"),
            (
                "jdbc:oracle:thin:scott/X1@//h/db",
                "jdbc:oracle:thin:***@//h/db",
            ),
            (
                "Bearer authentication failed for Bearer 0123456789abcdef0123456789abcdef",
                "Bearer authentication failed for Bearer ***",
            ),
            ("ask https://joe:S3CRET", "ask https://***"),
            (
                "ask https://maps.example:8443",
                "ask https://maps.example:8443",
            ),
            (
                "keyword=roads, code: 12, time: 10:30",
                "keyword=roads, code: 12, time: 10:30",
            ),
        ] {
            assert_eq!(message(text), masked);
        }
    }

    #[test]
    fn a_message_is_cut_on_a_character_and_holds_no_control_characters() {
        let long = message(&"ü\u{7}".repeat(900));
        assert!(long.chars().count() == 400 && !long.contains('\u{7}'));
        assert!(message(&"token=ü".repeat(1000)).chars().count() <= 400);
    }
}
