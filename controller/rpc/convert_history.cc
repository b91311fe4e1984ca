#include "controller/rpc/convert_history.h"

#include "controller/rpc/convert.h"

namespace paceline {

v1::JobHistoryEvent ToProto(const JobLifeEvent& event) {
  v1::JobHistoryEvent out;
  out.set_id(event.id);
  *out.mutable_time() = ToProto(event.time);
  out.set_kind(static_cast<v1::JobEventKind>(static_cast<int>(event.kind) + 1));
  out.set_state(ToProto(event.state));
  out.set_generation(event.generation.value());
  out.set_step(event.step);
  out.set_warning(event.warning);
  out.set_what(event.what);
  return out;
}

JobLifeEvent FromProto(const v1::JobHistoryEvent& event) {
  const bool known = event.kind() >= v1::EVENT_STATE && event.kind() <= v1::EVENT_STALL;
  JobLifeEvent out;
  out.id = event.id();
  out.time = FromProto(event.time());
  out.kind = known ? static_cast<JobEventKind>(event.kind() - 1) : JobEventKind::kState;
  out.state = FromProto(event.state());
  out.generation = Generation(event.generation());
  out.step = event.step();
  out.warning = event.warning();
  out.what = event.what();
  return out;
}

}  // namespace paceline
