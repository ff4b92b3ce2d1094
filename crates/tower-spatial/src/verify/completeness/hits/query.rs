use http::Uri;

/// A WFS query, and the question for its number of members.
#[derive(Debug, PartialEq)]
pub(super) struct Query {
    pub(super) hits: Uri,
    count: Option<u64>,
    start: u64,
}

impl Query {
    /// `None` where the question makes no sense: the number is what is asked for, or the version knows no such question.
    pub(super) fn read(uri: &Uri) -> Option<Self> {
        let (mut count, mut start) = (None, 0);
        let mut kept = Vec::new();
        for pair in uri.query()?.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name.to_ascii_lowercase().as_str() {
                "count" | "maxfeatures" => count = value.parse().ok(),
                "startindex" => start = value.parse().unwrap_or(0),
                "resulttype" if value.eq_ignore_ascii_case("hits") => return None,
                // The number stands in the default format.
                "resulttype" | "outputformat" | "format_options" => {}
                "version" if value.starts_with("1.0") => return None,
                _ => kept.push(pair),
            }
        }
        kept.push("resultType=hits");
        let target = format!("{}?{}", uri.path(), kept.join("&"));
        let mut parts = uri.clone().into_parts();
        parts.path_and_query = Some(target.parse().ok()?);
        Some(Self {
            hits: Uri::from_parts(parts).ok()?,
            count,
            start,
        })
    }

    /// How many of `matched` members this page has.
    pub(super) fn page(&self, matched: u64) -> u64 {
        let rest = matched.saturating_sub(self.start);
        self.count.map_or(rest, |count| rest.min(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_leaves_out_what_is_only_of_the_answer() {
        let read = |target: &str| Query::read(&target.parse().unwrap());
        let query = read("http://a:1/wfs?SERVICE=WFS&version=2.0.0&REQUEST=GetFeature&typeNames=a:b&COUNT=100&startIndex=250&outputFormat=csv&resulttype=results&filter=%3Ca%3E").unwrap();
        assert_eq!(
            query.hits,
            "http://a:1/wfs?SERVICE=WFS&version=2.0.0&REQUEST=GetFeature&typeNames=a:b&filter=%3Ca%3E&resultType=hits"
        );
        assert_eq!(
            (query.page(1000), query.page(300), query.page(9)),
            (100, 50, 0)
        );
        assert_eq!(read("/wfs?request=GetFeature").unwrap().page(7), 7);
        assert_eq!(read("/wfs?request=GetFeature&resultType=HITS"), None);
        assert_eq!(read("/wfs?request=GetFeature&version=1.0.0"), None);
        assert_eq!(read("/wfs"), None);
    }
}
