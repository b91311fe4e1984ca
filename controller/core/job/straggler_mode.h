// What is done about the stragglers of a job: proto/job_spec.proto, StragglerMode.
#ifndef CONTROLLER_CORE_JOB_STRAGGLER_MODE_H_
#define CONTROLLER_CORE_JOB_STRAGGLER_MODE_H_

namespace paceline {

enum class StragglerMode {
  kOff,     // Nothing is decided.
  kAdvise,  // A person decides.
  kAuto,    // What is advised is done, as far as the brakes allow.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_STRAGGLER_MODE_H_
