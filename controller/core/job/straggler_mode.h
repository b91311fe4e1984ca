// What is done about a job's stragglers. As StragglerMode in proto/job_spec.proto.
#ifndef CONTROLLER_CORE_JOB_STRAGGLER_MODE_H_
#define CONTROLLER_CORE_JOB_STRAGGLER_MODE_H_

namespace paceline {

enum class StragglerMode {
  kOff,     // Nothing is decided.
  kAdvise,  // A person decides.
  kAuto,    // Advice is followed, as far as the brakes allow.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_STRAGGLER_MODE_H_
