//! The elements of a head that is suspected: built only then, bounded, cut documents included.

use std::borrow::Cow;

use crate::form::html::entities;
use crate::form::xml::{Attributes, Scanner, Token, local_name, prefix};

/// Elements beyond this are not kept.
const MOST_ELEMENTS: usize = 4096;

/// Elements open at once, and namespaces declared at once, beyond which the rest is not read: work stays linear.
const MOST_OPEN: usize = 256;

/// An end tag is looked for among so many open elements; what no server forgets to close is not closed here either.
const MOST_FORGOTTEN: usize = 8;

/// An XML head as elements in document order.
#[derive(Clone, Debug, Default)]
pub struct Xml<'a> {
    elements: Vec<Element<'a>>,
}

/// One element.
#[derive(Clone, Debug)]
pub struct Element<'a> {
    parent: usize,
    depth: usize,
    name: &'a str,
    namespace: Option<Cow<'a, str>>,
    attributes: &'a str,
    text: String,
    complete: bool,
    /// It stands after a second XML declaration within the document.
    after_declaration: bool,
}

impl<'a> Xml<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let mut scanner = Scanner::default();
        let mut elements: Vec<Element<'a>> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut namespaces: Vec<(usize, &'a str, &'a str)> = Vec::new();
        let mut after_declaration = false;
        while elements.len() < MOST_ELEMENTS && open.len() < MOST_OPEN {
            match scanner.next(bytes) {
                Some(Token::Start {
                    name,
                    attributes,
                    empty,
                }) => {
                    let (name, attributes) = (&text[name], &text[attributes]);
                    let depth = open.len();
                    for (attribute, value) in Attributes::new(attributes.as_bytes()) {
                        let declared = attribute
                            .strip_prefix(b"xmlns:")
                            .or_else(|| (attribute == b"xmlns").then_some(&b""[..]));
                        if let (Some(declared), Ok(value)) = (
                            declared.filter(|_| namespaces.len() < MOST_OPEN),
                            std::str::from_utf8(value),
                        ) {
                            namespaces.push((
                                depth,
                                std::str::from_utf8(declared).unwrap_or_default(),
                                value,
                            ));
                        }
                    }
                    let wanted = std::str::from_utf8(prefix(name.as_bytes())).unwrap_or_default();
                    let namespace = namespaces
                        .iter()
                        .rev()
                        .find(|(_, declared, _)| *declared == wanted)
                        .map(|found| Cow::Borrowed(found.2));
                    elements.push(Element {
                        parent: open.last().copied().unwrap_or(usize::MAX),
                        depth,
                        name,
                        namespace,
                        attributes,
                        text: String::new(),
                        complete: empty,
                        after_declaration,
                    });
                    if empty {
                        namespaces.retain(|&(at, ..)| at < depth);
                    } else {
                        open.push(elements.len() - 1);
                    }
                }
                Some(Token::End { name }) => {
                    // What was left open inside ends with it; an end that matches nothing is passed over.
                    let near = open.len().saturating_sub(MOST_FORGOTTEN);
                    let matches = |&index: &usize| elements[index].name == &text[name.clone()];
                    if let Some(at) = open[near..].iter().rposition(matches).map(|at| near + at) {
                        elements[open[at]].complete = true;
                        open.truncate(at);
                        let depth = open.len();
                        namespaces.retain(|&(declared, ..)| declared < depth);
                    }
                }
                Some(Token::Text(range)) => {
                    if let Some(&top) = open.last() {
                        push_text(&mut elements[top].text, &text[range]);
                    }
                }
                Some(Token::CData(range)) => {
                    if let Some(&top) = open.last() {
                        elements[top].text.push_str(&text[range]);
                    }
                }
                Some(Token::Instruction(range)) => {
                    let target = text[range]
                        .split(|character: char| character.is_whitespace())
                        .next();
                    after_declaration |= target == Some("xml") && !elements.is_empty();
                }
                Some(_) => {}
                None => {
                    let rest = text.get(scanner.rest(bytes)).unwrap_or_default();
                    // A root whose tag is cut off is known by its name, and by the namespaces that were read.
                    if elements.is_empty()
                        && let Some(root) = cut_root(rest)
                    {
                        elements.push(root);
                        break;
                    }
                    if let Some(&top) = open.last() {
                        // A text, or a CDATA section, that is cut off; a tag that is cut off says nothing.
                        let rest = rest.strip_prefix("<![CDATA[").unwrap_or(rest);
                        if !rest.starts_with('<') {
                            push_text(&mut elements[top].text, rest);
                        }
                    }
                    break;
                }
            }
        }
        Self { elements }
    }

    /// The root element.
    pub fn root(&self) -> Option<&Element<'a>> {
        self.elements.first()
    }

    /// All elements in document order.
    pub fn elements(&self) -> impl Iterator<Item = &Element<'a>> {
        self.elements.iter()
    }

    /// The first element of this local name.
    pub fn find(&self, local: &str) -> Option<&Element<'a>> {
        self.elements
            .iter()
            .find(|element| element.local_name() == local)
    }

    /// The first child of `parent` that has one of these local names.
    pub fn child(&self, parent: &Element<'a>, locals: &[&str]) -> Option<&Element<'a>> {
        self.children(parent)
            .find(|element| locals.contains(&element.local_name()))
    }

    /// The children of `parent`.
    pub fn children<'x>(&'x self, parent: &Element<'a>) -> impl Iterator<Item = &'x Element<'a>> {
        let at = self.index(parent);
        self.elements
            .iter()
            .filter(move |element| element.parent == at)
    }

    /// `parent` and all that stands within it.
    pub fn within<'x>(&'x self, parent: &Element<'a>) -> impl Iterator<Item = &'x Element<'a>> {
        let at = self.index(parent);
        let depth = parent.depth;
        self.elements
            .iter()
            .enumerate()
            .skip(at)
            .take_while(move |(index, element)| *index == at || element.depth > depth)
            .map(|(_, element)| element)
    }

    /// The parent of an element.
    pub fn parent(&self, element: &Element<'a>) -> Option<&Element<'a>> {
        self.elements.get(element.parent)
    }

    /// All text within `parent`, in document order of the elements.
    pub fn text_within(&self, parent: &Element<'a>) -> String {
        let mut words = String::new();
        for element in self.within(parent) {
            let text = element.text.trim();
            if !text.is_empty() {
                if !words.is_empty() {
                    words.push(' ');
                }
                words.push_str(text);
            }
            if words.len() > 4096 {
                break;
            }
        }
        words
    }

    fn index(&self, element: &Element<'a>) -> usize {
        self.elements
            .iter()
            .position(|known| std::ptr::eq(known, element))
            .unwrap_or(usize::MAX)
    }
}

impl Element<'_> {
    /// The name without its prefix.
    pub fn local_name(&self) -> &str {
        std::str::from_utf8(local_name(self.name.as_bytes())).unwrap_or_default()
    }

    /// The prefix, empty where there is none.
    pub fn prefix(&self) -> &str {
        std::str::from_utf8(prefix(self.name.as_bytes())).unwrap_or_default()
    }

    /// The namespace, where it is declared.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The value of the attribute with this local name, entities replaced.
    pub fn attribute(&self, name: &str) -> Option<String> {
        Attributes::new(self.attributes.as_bytes())
            .find(|(attribute, _)| {
                local_name(attribute) == name.as_bytes() && !attribute.starts_with(b"xmlns")
            })
            .map(|(_, value)| entities(&String::from_utf8_lossy(value)))
    }

    /// The text that stands directly in it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether its end was read.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn stands_after_a_declaration(&self) -> bool {
        self.after_declaration
    }
}

fn push_text(text: &mut String, more: &str) {
    if more.contains('&') {
        text.push_str(&entities(more));
    } else {
        text.push_str(more);
    }
}

fn cut_root(rest: &str) -> Option<Element<'_>> {
    let inner = rest.strip_prefix('<')?;
    let length = inner
        .find(|character: char| character.is_whitespace())
        .filter(|length| *length > 0)?;
    let (name, attributes) = inner.split_at(length);
    let wanted = prefix(name.as_bytes());
    let namespace = Attributes::new(attributes.as_bytes()).find(|(attribute, _)| {
        attribute
            .strip_prefix(b"xmlns:")
            .or_else(|| (*attribute == b"xmlns").then_some(&b""[..]))
            == Some(wanted)
    });
    let namespace = namespace
        .and_then(|(_, value)| std::str::from_utf8(value).ok())
        .map(Cow::Borrowed);
    let parent = usize::MAX;
    Some(Element {
        parent,
        depth: 0,
        name,
        namespace,
        attributes,
        text: String::new(),
        complete: false,
        after_declaration: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_follow_prefixes_and_end_with_their_element() {
        let xml = Xml::read(
            "<a xmlns='u:1'><p:b xmlns:p='u:2' p:c=' &lt;x&gt; '>t<![CDATA[<u>]]></p:b><p:d/><e",
        );
        let names: Vec<_> = xml
            .elements()
            .map(|element| (element.local_name(), element.namespace()))
            .collect();
        assert_eq!(names, [("a", Some("u:1")), ("b", Some("u:2")), ("d", None)]);
        let b = xml.find("b").unwrap();
        assert_eq!(
            (b.attribute("c").unwrap().as_str(), b.text()),
            (" <x> ", "t<u>")
        );
        assert_eq!(xml.parent(b).unwrap().local_name(), "a");
        assert!(b.is_complete() && !xml.root().unwrap().is_complete());
    }
}
