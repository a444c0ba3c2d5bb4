//! Draws the board on a screen of any size.

use jiff::Timestamp;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table, TableState, Wrap};
use serde_json::Value;

use super::board::{Overlay, Tab, TopBoard};
use crate::cli::remote::{Tone, age, clip, count, plain, text, tone};
use crate::cli::{instances, jobs, pools, status};

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, board: &TopBoard, now: Timestamp) {
    let concerns = status::concerns(&board.fleet);
    let shown_concerns = u16::try_from(concerns.len().min(4)).unwrap_or(4);
    let [head, needs, tabs, list, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(shown_concerns),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(&board.fleet, now)), head);
    let lines: Vec<Line<'_>> = concerns
        .iter()
        .take(4)
        .map(|text| Line::styled(format!("! {text}"), Style::new().fg(Color::Yellow)))
        .collect();
    frame.render_widget(Paragraph::new(lines), needs);
    frame.render_widget(Paragraph::new(tab_line(board)), tabs);
    draw_list(frame, board, list, now);
    frame.render_widget(Paragraph::new(foot_line(board)), foot);
    match &board.overlay {
        Overlay::Nothing => {}
        Overlay::Help => draw_over(frame, "Keys", help()),
        Overlay::Why(name, _) => draw_over(frame, name, why(board)),
    }
}

fn heading(fleet: &Value, now: Timestamp) -> Vec<Line<'static>> {
    let job = &fleet["jobs"];
    let waiting = count(&job["waiting"]) + count(&job["queued"]) + count(&job["offered"]);
    let oldest = &fleet["oldest_queued_at"];
    let oldest =
        if oldest.is_string() { format!(", oldest {}", age(oldest, now)) } else { String::new() };
    vec![
        Line::from(vec![
            Span::styled(text(&fleet["name"]), BOLD),
            Span::raw(format!(
                "  {} instances: {}",
                count(&fleet["instances"]["total"]),
                status::states_of(&fleet["instances"]["states"])
            )),
        ]),
        Line::from(format!(
            "jobs: {} running, {waiting} waiting{oldest}   {}   Ostler {}",
            count(&job["running"]),
            text(&fleet["stage"]),
            text(&fleet["version"])
        )),
    ]
}

fn tab_line(board: &TopBoard) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, tab) in (1..).zip(Tab::ALL) {
        let style = if tab == board.tab { BOLD.add_modifier(Modifier::REVERSED) } else { DIM };
        spans.push(Span::styled(format!(" {number} {} ", tab.label()), style));
        spans.push(Span::raw(" "));
    }
    if board.typing || !board.filter.is_empty() {
        let end = if board.typing { "▏" } else { "" };
        spans.push(Span::raw(format!("  /{}{end}", plain(&board.filter))));
    }
    Line::from(spans)
}

fn foot_line(board: &TopBoard) -> Line<'static> {
    match &board.trouble {
        Some(trouble) => {
            let first = plain(trouble.lines().next().unwrap_or_default()).into_owned();
            Line::styled(
                format!("no answer; showing stale data: {first}"),
                Style::new().fg(Color::Red),
            )
        }
        None => {
            Line::styled(format!("? keys  enter why  / filter  q quit   {}", board.server), DIM)
        }
    }
}

fn draw_list(frame: &mut Frame<'_>, board: &TopBoard, area: Rect, now: Timestamp) {
    let rows = board.visible();
    if rows.is_empty() {
        let nothing = match (board.tab, board.filter.is_empty()) {
            (_, false) => "No matches; esc clears the filter.",
            (Tab::Pools, true) => "No pools configured.",
            (Tab::Instances, true) => "No instances.",
            (Tab::Jobs, true) => "No jobs queued or running.",
            (Tab::Deaths, true) => "No deaths yet.",
        };
        frame.render_widget(Paragraph::new(Line::styled(nothing, DIM)), area);
        return;
    }
    let (columns, widths): (&[&str], &[u16]) = match board.tab {
        Tab::Pools => (
            &["pool", "state", "instances", "target", "max", "demand", "oldest"],
            &[18, 13, 40, 5, 5, 7, 7],
        ),
        Tab::Instances => {
            (&["instance", "state", "for", "pool", "job", "host", ""], &[30, 15, 8, 16, 20, 18, 14])
        }
        Tab::Jobs => (&["job", "name", "state", "for", "pool", "why"], &[20, 26, 9, 8, 14, 60]),
        Tab::Deaths => {
            (&["instance", "verdict", "fault", "exit", "ended", "advice"], &[30, 15, 9, 5, 8, 60])
        }
    };
    let cells = rows.iter().map(|row| line_of(board.tab, row, now));
    let table = Table::new(cells, widths.iter().map(|width| Constraint::Max(*width)))
        .header(Row::new(columns.iter().map(|name| name.to_uppercase())).style(DIM))
        .column_spacing(1)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::default().with_selected(board.cursor());
    frame.render_stateful_widget(table, area, &mut state);
}

fn line_of(tab: Tab, row: &Value, now: Timestamp) -> Row<'static> {
    let cells: Vec<String> = match tab {
        Tab::Pools => vec![
            text(&row["name"]),
            pools::pool_status(row),
            status::states_of(&row["states"]),
            text(&row["want"]),
            text(&row["max"]),
            text(&row["demand"]),
            age(&row["oldest_queued_at"], now),
        ],
        Tab::Instances => {
            let job = if row["job"].is_null() { &row["offered_job"] } else { &row["job"] };
            vec![
                text(&row["name"]),
                text(&row["state"]),
                age(&row["since"], now),
                text(&row["pool"]),
                text(job),
                text(&row["host"]),
                instances::remarks(row),
            ]
        }
        Tab::Jobs => vec![
            text(&row["id"]),
            text(&row["name"]),
            text(&row["state"]),
            age(jobs::since(row), now),
            text(&row["pool"]),
            text(&row["why"]),
        ],
        Tab::Deaths => vec![
            text(&row["instance"]),
            text(&row["verdict"]),
            text(&row["fault"]),
            text(&row["exit_code"]),
            age(&row["ended_at"], now),
            text(&row["advice"]),
        ],
    };
    Row::new(cells.into_iter().map(|label| {
        let style = tone(&label).map_or_else(Style::new, |tone| Style::new().fg(colour_of(tone)));
        Cell::from(Span::styled(clip(&label, 200), style))
    }))
}

fn colour_of(tone: Tone) -> Color {
    match tone {
        Tone::Working => Color::Magenta,
        Tone::Good => Color::Green,
        Tone::Offered => Color::Cyan,
        Tone::Starting => Color::Blue,
        Tone::Terminating => Color::Yellow,
        Tone::Bad => Color::Red,
        Tone::Done => Color::DarkGray,
    }
}

fn why(board: &TopBoard) -> Vec<Line<'static>> {
    let Some(why) = &board.why else { return vec![Line::styled("loading…", DIM)] };
    why["lines"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|line| Line::from(format!("- {}", text(line))))
        .collect()
}

fn help() -> Vec<Line<'static>> {
    let keys = [
        ("1 2 3 4, tab", "pools, instances, jobs, deaths"),
        ("↑ ↓, j k", "select"),
        ("pgup pgdn, g G", "scroll"),
        ("enter", "explain"),
        ("/", "filter; enter keeps it, esc clears it"),
        ("?", "help"),
        ("q, ctrl-c", "quit"),
    ];
    keys.iter()
        .map(|(key, what)| {
            Line::from(vec![Span::styled(format!("{key:<16}"), BOLD), Span::raw(*what)])
        })
        .collect()
}

fn draw_over(frame: &mut Frame<'_>, title: &str, lines: Vec<Line<'static>>) {
    let all = frame.area();
    let width = all.width.saturating_sub(4).min(100);
    let inside = usize::from(width.saturating_sub(4)).max(1);
    let needed: usize = lines.iter().map(|line| line.width() / inside + 1).sum();
    let height = u16::try_from(needed + 2)
        .unwrap_or(u16::MAX)
        .min(all.height.saturating_sub(2))
        .max(3)
        .min(all.height);
    let area = Rect { x: (all.width - width) / 2, y: (all.height - height) / 2, width, height };
    let block = Block::bordered().title(format!(" {title} ")).title_bottom(" esc closes ");
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}
