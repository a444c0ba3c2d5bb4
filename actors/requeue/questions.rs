//! Which question is put next: urgent ones before routine ones, and always with places to spare.
//!
//! A question is *urgent* when a job may have lost its runner. It never waits behind routine
//! questions: neither in the queue nor for a place, because routine questions leave some of the
//! places free. A job has one question in the queue and one under way at most.

use std::collections::{BTreeMap, BTreeSet};

use super::unserved::{AskReason, JobQuestion};
use crate::model::JobId;

/// How many questions may be under way at once.
const MAX_IN_FLIGHT: usize = 8;
/// How many of them may be routine: a forge that is slow to answer holds these, and no more.
const MAX_ROUTINE_IN_FLIGHT: usize = 6;

/// Holds what is to be asked and what is being asked.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// What waits, with the number of its arrival.
    queued: BTreeMap<JobId, (u64, JobQuestion)>,
    /// The same in the order in which it is put.
    order: BTreeSet<(AskReason, u64, JobId)>,
    arrivals: u64,
    /// The jobs that are being asked about, and whether that is urgent.
    in_flight: BTreeMap<JobId, bool>,
}

impl Questions {
    /// Adds what a search of the records found, unless the job is being asked about: the next
    /// search sees what came of that.
    pub(super) fn found(&mut self, question: JobQuestion) {
        if !self.in_flight.contains_key(&question.job) {
            self.enqueue(question);
        }
    }

    /// Adds a question that must be put after this moment, also about a job that is being asked
    /// about: that answer may be older than what led to the question.
    pub(super) fn enqueue(&mut self, question: JobQuestion) {
        let job = question.job.clone();
        self.arrivals += 1;
        let (at, why) = match self.queued.remove(&job) {
            Some((at, earlier)) => {
                self.order.remove(&(earlier.why, at, job.clone()));
                (at, earlier.why.min(question.why))
            }
            None => (self.arrivals, question.why),
        };
        self.order.insert((why, at, job.clone()));
        // The newer one is bound to the attempt that stands now.
        self.queued.insert(job, (at, JobQuestion { why, ..question }));
    }

    /// Takes the next question out of the queue, if one may be put now.
    pub(super) fn begin(&mut self) -> Option<JobQuestion> {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return None;
        }
        let routine = self.in_flight.values().filter(|urgent| !**urgent).count();
        let may_be_put = |(why, _, job): &&(AskReason, u64, JobId)| {
            let has_place = why.is_urgent() || routine < MAX_ROUTINE_IN_FLIGHT;
            has_place && !self.in_flight.contains_key(job)
        };
        let next = self.order.iter().find(may_be_put)?.clone();
        self.order.remove(&next);
        let (why, _, job) = next;
        let (_, question) = self.queued.remove(&job)?;
        self.in_flight.insert(job, why.is_urgent());
        Some(question)
    }

    /// Takes that a question is over, answered or not.
    pub(super) fn over(&mut self, job: &JobId) {
        self.in_flight.remove(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::tests::{id, place};

    fn question(number: u64, why: AskReason) -> JobQuestion {
        let generation = crate::model::Generation::default();
        JobQuestion { job: id(number), place: place(), run: 1, instance: None, generation, why }
    }

    /// Returns the jobs whose questions are put now, in order.
    fn put(questions: &mut Questions) -> Vec<u64> {
        std::iter::from_fn(|| questions.begin()).map(|question| question.job.number).collect()
    }

    #[test]
    fn a_job_that_may_have_lost_its_runner_is_asked_about_before_all_routine_questions() {
        let mut questions = Questions::default();
        for number in 0..500 {
            questions.found(question(number, AskReason::Waiting));
        }
        assert_eq!(put(&mut questions), [0, 1, 2, 3, 4, 5], "routine ones leave places free");
        questions.enqueue(question(1000, AskReason::InstanceEnded));
        questions.found(question(1001, AskReason::Unproven));
        assert_eq!(put(&mut questions), [1000, 1001], "while six routine ones are unanswered");
        questions.over(&id(1000));
        questions.over(&id(3));
        assert_eq!(put(&mut questions), [6]);
    }

    #[test]
    fn a_routine_question_that_becomes_urgent_moves_to_the_front() {
        let mut questions = Questions::default();
        for number in 0..20 {
            questions.found(question(number, AskReason::Running));
        }
        questions.enqueue(question(19, AskReason::InstanceEnded));
        assert_eq!(put(&mut questions), [19, 0, 1, 2, 3, 4, 5]);
        questions.found(question(18, AskReason::Waiting));
        assert_eq!(questions.order.len(), 13, "a job has one question in the queue");
    }

    #[test]
    fn a_job_is_asked_about_again_when_its_instance_ends_during_a_question_and_not_for_a_search() {
        let mut questions = Questions::default();
        questions.found(question(1, AskReason::Running));
        assert_eq!(put(&mut questions), [1]);
        questions.found(question(1, AskReason::Running));
        questions.enqueue(question(1, AskReason::InstanceEnded));
        assert!(put(&mut questions).is_empty(), "one question about a job at a time");
        questions.over(&id(1));
        assert_eq!(put(&mut questions), [1]);
        questions.over(&id(1));
        assert!(put(&mut questions).is_empty());
    }

    #[test]
    fn urgent_questions_take_every_place() {
        let mut questions = Questions::default();
        for number in 0..20 {
            questions.enqueue(question(number, AskReason::InstanceEnded));
        }
        assert_eq!(put(&mut questions).len(), MAX_IN_FLIGHT);
    }
}
