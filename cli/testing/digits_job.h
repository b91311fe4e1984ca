// A job "digits" of two ranks and 100 steps, as a controller describes it while it trains.
#ifndef CLI_TESTING_DIGITS_JOB_H_
#define CLI_TESTING_DIGITS_JOB_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace paceline {

inline constexpr char kId[] = "job-0123456789ab";

inline v1::Job JobIn(v1::JobState state, int64_t revision, int64_t step = 0) {
  v1::Job job;
  job.set_id(kId);
  job.mutable_spec()->set_name("digits");
  job.mutable_spec()->set_steps(100);
  job.mutable_spec()->set_ranks(2);
  job.mutable_spec()->set_batch_per_rank(16);
  job.set_state(state);
  job.set_revision(revision);
  job.mutable_progress()->set_step(step);
  if (step > 0) {
    job.mutable_progress()->set_loss(0.5);
    job.mutable_progress()->set_samples_per_s(800);
    job.mutable_progress()->set_training_s(static_cast<double>(step) / 25);
  }
  for (int rank = 0; rank < 2 && state != v1::QUEUED; ++rank) job.add_ranks()->set_rank(rank);
  return job;
}

inline v1::JobEvent Event(const v1::Job& job) {
  v1::JobEvent event;
  event.set_type(v1::MODIFIED);
  *event.mutable_job() = job;
  event.set_revision(job.revision());
  return event;
}

}  // namespace paceline

#endif  // CLI_TESTING_DIGITS_JOB_H_
