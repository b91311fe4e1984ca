// The sum of a vector over a group of ranks, at a quarter of the bytes of fp32, and on each rank
// the rest that the sum does not have of its vector.
//
// The values are cut into one part for each member:
//
//   1. Each member encodes its vector (int8_codec.h) and sends the j-th part to member j.
//   2. Member j decodes and adds up what it received, in the order of the members, encodes the
//      sum, and sends it to all.
//   3. Each member decodes all parts.
//
// What the rounding leaves out in step 1 is the rest of each member, what it leaves out in step 2
// that of the owner of the part: the sum is that of (vector - rest) over all members. The bits of
// the sum are the same on all members.
//
// A rank sends 2 (n - 1) / n of about P (1 + 4/512) bytes for P values, where fp32 needs 4 P.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_INT8_SUM_H_
#define WORKER_TRAINER_COMM_INT8_SUM_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/int8_codec.h"

namespace paceline {

class Int8Sum {
 public:
  // For vectors of so many values, on the host or the device of `options`. The others outlive this.
  Int8Sum(Int8Codec& codec, Group& group, int64_t values, const at::TensorOptions& options);

  // Replaces `vector` by the sum and `rest` by this rank's rest: both are float [values]. Returns
  // the bytes that this rank sent.
  int64_t Sum(at::Tensor vector, at::Tensor rest);

 private:
  struct Codes {
    at::Tensor quantized;
    at::Tensor scales;
  };
  // Views: the values of a member's part, and its codes in the messages of all parts.
  at::Tensor PartOf(const at::Tensor& vector, int64_t member) const;
  Codes CodesOf(const at::Tensor& messages, int64_t place, int64_t member) const;

  Int8Codec& codec_;
  Group& group_;
  const int64_t values_;
  const int64_t rows_;  // Of a part; the last parts may have fewer, or none.
  at::Tensor own_;      // Bytes [parts, of a part].
  at::Tensor received_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_INT8_SUM_H_
