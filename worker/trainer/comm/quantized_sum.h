// The sum of a vector over a group of ranks, in a format of an eighth to a half of fp32's bytes.
// Each rank also gets its rest: the part of its vector that the sum lacks.
//
// The values are cut into one part for each member, of whole rows:
//
//   1. Each member encodes its vector (row_formats.h) and sends the j-th part to member j.
//   2. Member j decodes and adds up what it received, in the order of the members, encodes the
//      sum, and sends it to all.
//   3. Each member decodes all parts.
//
// A member's rest is its rounding error in step 1; the owner of a part adds that of step 2. So the
// sum is exactly that of (vector - rest) over all members. It has the same bits on all members.
//
// A rank sends 2 (n - 1) / n of about P (b + 4/512) bytes for P values of b bytes, where fp32 needs
// 4 P.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_QUANTIZED_SUM_H_
#define WORKER_TRAINER_COMM_QUANTIZED_SUM_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/row_codec.h"

namespace paceline {

class QuantizedSum {
 public:
  // For `values` values on the host or device of `options`. `codec` and `group` must outlive this.
  QuantizedSum(RowCodec& codec, RowFormat format, Group& group, int64_t values,
               const at::TensorOptions& options);

  // Replaces `vector` by the sum and `rest` by this rank's rest, both float [values]. Returns the
  // bytes that this rank sent.
  int64_t Sum(at::Tensor vector, at::Tensor rest);

 private:
  // Views of a member's values, and of its codes in the messages of all parts.
  at::Tensor PartOf(const at::Tensor& vector, int64_t member) const;
  RowCodes CodesOf(const at::Tensor& messages, int64_t place, int64_t member) const;

  RowCodec& codec_;
  const RowFormat format_;
  Group& group_;
  const int64_t values_;
  const int64_t rows_;  // Per part; the last parts may have fewer, or none.
  at::Tensor own_;      // Bytes [parts, bytes of a part].
  at::Tensor received_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_QUANTIZED_SUM_H_
