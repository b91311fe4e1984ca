// The copies of states that a trainer has in host memory.
#ifndef TESTS_SIM_COPIES_H_
#define TESTS_SIM_COPIES_H_

#include <cstdint>
#include <map>
#include <tuple>

#include "worker/trainer/core/copy_keeper.h"

namespace paceline::sim {

struct TrainerCopies {
  static std::tuple<int, int64_t, int64_t> KeyOf(const CopyLabel& label) {
    return {label.seat, label.step, label.generation};
  }

  CopyKeeper keeper;
  // ModelPart::state of those that it has, or has had.
  std::map<std::tuple<int, int64_t, int64_t>, uint64_t> states;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_COPIES_H_
