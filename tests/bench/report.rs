//! Puts the parts of all benches together: `target/bench/report.json` and `report.md`.
//!
//! A bench that writes no part is taken in as the text it printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

#[path = "part.rs"]
#[expect(dead_code, reason = "only the folder is needed here")]
mod part;

fn main() {
    let folder = part::folder();
    let mut names: Vec<_> = fs::read_dir(folder.join("parts"))
        .map(|entries| entries.filter_map(|it| it.ok().map(|it| it.path())).collect())
        .unwrap_or_default();
    names.sort();
    let parts: Vec<Value> = names
        .iter()
        .filter_map(|path| serde_json::from_str(&fs::read_to_string(path).ok()?).ok())
        .collect();
    let has_part = |name: &str| parts.iter().any(|part| part["name"] == name);
    let texts: BTreeMap<String, String> = fs::read_dir(folder.join("text"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|it| it.path()))
        .filter_map(|path| {
            Some((path.file_stem()?.to_str()?.to_owned(), fs::read_to_string(path).ok()?))
        })
        .filter(|(name, _)| !has_part(name))
        .collect();
    let report = json!({
        "texts": texts,
        "date": said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "commit": said("git", &["rev-parse", "--short", "HEAD"]),
        "machine": machine(),
        "parts": parts,
    });
    let text = serde_json::to_string_pretty(&report).expect("JSON");
    fs::create_dir_all(&folder).expect("the target folder");
    fs::write(folder.join("report.json"), text).expect("the target folder");
    let page = page(&report);
    fs::write(folder.join("report.md"), &page).expect("the target folder");
    println!("{page}");
    println!("written: {}", folder.join("report.json").display());
}

fn page(report: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut page = format!(
        "{}, commit {}, {}\n",
        text(&report["date"]),
        text(&report["commit"]),
        text(&report["machine"])
    );
    for part in report["parts"].as_array().into_iter().flatten() {
        let _ = write!(page, "\n### {}\n\n", text(&part["name"]));
        for condition in part["conditions"].as_array().into_iter().flatten() {
            let _ = writeln!(page, "{}.", text(condition));
        }
        let _ = write!(
            page,
            "Load average when it ended: {}.\n\n| figure | value | × floor | goal | |\n|---|---|---|---|---|\n",
            text(&part["load"])
        );
        for figure in part["figures"].as_array().into_iter().flatten() {
            page += &row(figure);
        }
    }
    for (name, told) in report["texts"].as_object().into_iter().flatten() {
        let _ = write!(page, "\n### {name}\n\n```text\n{}\n```\n", text(told).trim());
    }
    page
}

fn row(figure: &Value) -> String {
    let number = |value: &Value| value.as_f64().map(shown).unwrap_or_default();
    let met = match figure["met"].as_bool() {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "",
    };
    format!(
        "| {} | {} {} | {} | {} {met} | {} |\n",
        figure["what"].as_str().unwrap_or_default(),
        number(&figure["value"]),
        figure["unit"].as_str().unwrap_or_default(),
        number(&figure["ratio"]),
        number(&figure["goal"]),
        figure["note"].as_str().unwrap_or_default(),
    )
}

/// Writes a number with as many digits as a person can use.
fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn machine() -> String {
    let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory =
        memory.lines().next().and_then(|it| it.split_whitespace().nth(1)?.parse::<u64>().ok());
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cpus} CPUs ({}), {} GiB, Linux {}",
        model.trim_start_matches(['\t', ' ', ':']),
        memory.unwrap_or_default() >> 20,
        said("uname", &["-r"])
    )
}

fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    output.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default()
}
