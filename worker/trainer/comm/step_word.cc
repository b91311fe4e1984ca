#include "worker/trainer/comm/step_word.h"

#include <ATen/ops/zeros.h>

#include <cmath>

namespace paceline {

// Replicas are equal, so the first one speaks for all. Each of its ranks has a place of its own:
// all members add up the same numbers in the same order, however many replicas there are.
double StepWord::Give(double squares) {
  const at::Tensor places = at::zeros({lanes_.shards}, at::kDouble);
  double* const values = places.mutable_data_ptr<double>();
  if (lanes_.ReplicaOf(rank_) == lanes_.ReplicaOf(group_.ranks().front())) {
    values[lanes_.PositionOf(rank_)] = squares;
  }
  group_.SumFew(places);
  double sum = 0;
  for (int position = 0; position < lanes_.shards; ++position) sum += values[position];
  return std::sqrt(sum);
}

}  // namespace paceline
