// A node's reports of its trainers' steps: telemetry, which is not repeated when it is lost.
#include <limits>
#include <memory>
#include <utility>

#include "tests/sim/sim_controller.h"
#include "tests/sim/sim_node.h"

namespace paceline::sim {
namespace {

constexpr Micros kLate = 3 * kSecond;  // Mean delay of late messages.

double DrawNonsense(Random& random) {
  switch (random.Between(0, 4)) {
    case 0:
      return -1;
    case 1:
      return std::numeric_limits<double>::quiet_NaN();
    case 2:
      return std::numeric_limits<double>::infinity();
    case 3:
      return 20000;
    default:
      return 3000;
  }
}

bool IsBelieved(const StepTimes& reported, const StepTimes& honest) {
  return IsPlausible(reported) &&
         (reported.forward_s != honest.forward_s || reported.backward_s != honest.backward_s ||
          reported.communication_s != honest.communication_s || reported.total_s != honest.total_s);
}

}  // namespace

void SimNode::TellSteps() {
  for (const TrainerId& id : known_) {
    const Directory& directory = directories_.at(id);
    if (!directory.alive()) continue;
    std::vector<StepTimes> steps = directory.process->TakeSteps();
    if (steps.empty()) continue;
    TrainerId of = id;
    if (tells_nonsense) {
      const std::vector<StepTimes> honest = steps;
      of = Garble(id, steps);
      garbled = true;
      for (size_t i = 0; i < steps.size() && known_.count(of) > 0; ++i) {
        reported_nonsense = reported_nonsense || IsBelieved(steps[i], honest[i]);
      }
    }
    SendSteps(of, std::move(steps));
  }
}

void SimNode::SendSteps(const TrainerId& id, std::vector<StepTimes> steps) {
  const Settings& settings = world_.settings;
  if (steps_random_.Chance(settings.steps_lost)) return;
  const auto reported = std::make_shared<const std::vector<StepTimes>>(std::move(steps));
  for (int copy = steps_random_.Chance(settings.steps_repeated) ? 2 : 1; copy > 0; --copy) {
    Micros delay = 200 + steps_random_.Exponential(settings.control_delay);
    if (steps_random_.Chance(settings.steps_late)) delay += steps_random_.Exponential(kLate);
    world_.time.After(delay, [this, id, reported] {
      if (!world_.network->ControlIsCut(index_)) world_.controller->OnSteps(name_, id, *reported);
    });
  }
}

TrainerId SimNode::Garble(TrainerId id, std::vector<StepTimes>& steps) {
  switch (steps_random_.Between(0, 8)) {
    case 0:
      id.job = JobId("job-7");
      break;
    case 1:
    case 2: {
      // A rank of another node, as slow as is plausible.
      const auto& other = world_.nodes[static_cast<size_t>(
          steps_random_.Between(0, static_cast<int64_t>(world_.nodes.size()) - 1))];
      const std::vector<TrainerPtr> living = other->Living();
      if (!living.empty()) id = living.front()->id();
      for (StepTimes& times : steps) {
        times.backward_s *= 3;
        times.total_s = times.forward_s + times.backward_s + times.communication_s;
      }
      break;
    }
    case 3:
      for (StepTimes& times : steps) times.step -= 500;
      break;
    case 4:
      for (StepTimes& times : steps) times.step += int64_t{1} << steps_random_.Between(6, 62);
      break;
    case 5:
      // The largest plausible time, or a bit less than the real one.
      for (StepTimes& times : steps) {
        const double factor = steps_random_.Chance(0.5) ? 0.3 : 3;
        times.forward_s *= factor;
        times.backward_s *= factor;
        times.total_s = times.forward_s + times.backward_s + times.communication_s;
      }
      break;
    case 6:
      for (StepTimes& times : steps) {
        times.workload = DrawNonsense(steps_random_);
        times.averaging_ranks = static_cast<int>(steps_random_.Between(-5, 1000000));
        times.averaging_s = times.communication_s;
      }
      break;
    default:
      for (StepTimes& times : steps) {
        if (steps_random_.Chance(0.5)) times.forward_s = DrawNonsense(steps_random_);
        if (steps_random_.Chance(0.3)) times.total_s = DrawNonsense(steps_random_);
        if (steps_random_.Chance(0.3)) times.communication_s = DrawNonsense(steps_random_);
      }
  }
  return id;
}

}  // namespace paceline::sim
