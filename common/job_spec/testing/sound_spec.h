// A job spec without a problem, for tests that change it.
#ifndef COMMON_JOB_SPEC_TESTING_SOUND_SPEC_H_
#define COMMON_JOB_SPEC_TESTING_SOUND_SPEC_H_

#include <string>
#include <vector>

#include "common/job_spec/job_spec.h"
#include "proto/job_spec.pb.h"

namespace paceline {

inline v1::JobSpec Sound() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_model()->mutable_resnet18();
  spec.mutable_data()->set_train("/data/train.shard");
  spec.set_steps(100);
  spec.mutable_optimizer()->mutable_sgd();
  spec.mutable_optimizer()->set_learning_rate(0.1);
  return spec;
}

// Those that have a problem.
inline std::vector<std::string> Fields(const v1::JobSpec& spec) {
  std::vector<std::string> fields;
  for (const SpecProblem& problem : CheckJobSpec(spec)) fields.push_back(problem.field);
  return fields;
}

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_TESTING_SOUND_SPEC_H_
