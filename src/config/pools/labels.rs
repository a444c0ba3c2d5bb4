//! Labels: what GitHub takes, and what it would take for itself.

use crate::config::problems::Problem;
use crate::config::section::Section;
use crate::config::tree::{Node, Value};

pub(crate) fn check(section: &Section<'_>) {
    let key = section.key("labels");
    let Some(Value::List(nodes)) = section.node("labels").map(|node| &node.value) else { return };
    if nodes.is_empty() {
        let what = format!("`{key}` is empty, so no job could ask for these runners");
        section.note(
            section
                .error("labels", what)
                .help("write labels = [\"self-hosted\", \"linux\", \"x64\"]"),
        );
    }
    if nodes.len() > 100 {
        let what = format!("`{key}` holds {} labels; GitHub takes 100", nodes.len());
        section.note(section.error("labels", what).help("remove some"));
    }
    for (at, node) in nodes.iter().enumerate() {
        let Some(label) = node.value.text() else { continue };
        let error = |what: String, help: &str| {
            section.note(Problem::error(&key, what).at(Some(node.at)).help(help));
        };
        let odd = label.is_empty() || label.len() > 256 || label.trim() != label;
        if odd || label.contains(|c: char| c == ',' || c.is_control()) {
            error(
                format!("\"{label}\" cannot be a label"),
                "a label is 1 to 256 letters without commas, and without spaces around \
                        it; write each label as a text of its own",
            );
        }
        let same = |earlier: &Node| {
            earlier.value.text().is_some_and(|earlier| earlier.eq_ignore_ascii_case(label))
        };
        if nodes[..at].iter().any(same) {
            error(
                format!("label `{label}` is there twice; GitHub compares labels without case"),
                "keep one of them",
            );
        }
        if is_hosted(label) {
            let what = format!(
                "label `{label}` is one of GitHub's own runners; jobs that ask for it \
                        alone run there and never here"
            );
            section.note(
                Problem::warning(&key, what)
                    .at(Some(node.at))
                    .help("choose another name, such as \"linux\""),
            );
        }
    }
}

/// Returns whether a label belongs to GitHub's own runners: `ubuntu-latest`, `macos-15`.
fn is_hosted(label: &str) -> bool {
    let label = label.to_lowercase();
    let image =
        ["ubuntu-", "windows-", "macos-"].iter().find_map(|system| label.strip_prefix(system));
    image.is_some_and(|image| image == "latest" || image.starts_with(|c: char| c.is_ascii_digit()))
}
