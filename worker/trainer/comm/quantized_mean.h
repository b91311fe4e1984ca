// The mean of a vector over a group of ranks, in a format of an eighth to a half of fp32's bytes.
//
// A rank sends the change of its vector since the reference, a vector that is equal on all members.
// The values are cut into one part for each member, of whole rows:
//
//   1. Each member encodes its change (row_formats.h) and sends the j-th part to member j.
//   2. Member j decodes and averages what it received, in the order of the members, encodes the
//      mean, and sends it to all.
//   3. Each member decodes all parts and adds them to the reference: this is the mean.
//
// A member that accepts the mean has it as its next reference. All members do the same operations
// on the same bytes in step 3, so their results are equal bit for bit. Rounding errors, of each
// member in step 1 and of a part's owner in step 2, are added to what is encoded at the next mean:
// nothing is lost in the long run.
//
// A rank sends 2 (n - 1) / n of about P (b + 4/512) bytes for P values of b bytes, where fp32 needs
// 4 P. Sending each change to every member would take (n - 1) P b: equal for two members, more for
// all others, and with b = 1 as much as fp32 for eight.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_QUANTIZED_MEAN_H_
#define WORKER_TRAINER_COMM_QUANTIZED_MEAN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/row_codec.h"

namespace paceline {

// What members write and read for one mean. Its caller moves the messages between them.
class MeanMessages {
 public:
  // Flat bytes.
  struct Message {
    at::Tensor sent;
    at::Tensor received;
  };

  // Of vectors of `values`. `codec` must outlive this.
  MeanMessages(RowCodec& codec, RowFormat format, int members, int64_t values);

  // Of a member's part, and of all parts; behind `values` they are padding.
  int64_t part_values() const { return rows_ * kRowValues; }
  int64_t all_values() const { return members_ * part_values(); }

  // Step 1, for Group::ExchangeParts. `change`: float [all_values()]. `error`, like it: what is
  // added, and afterwards what rounding has left out.
  Message EncodeChange(const at::Tensor& change, const at::Tensor& error) const;
  // Step 2, for Group::Gather. `changes`: what step 1 has received. `error`: float [part_values()].
  // `riders`: flat float, or undefined.
  Message EncodeMean(const at::Tensor& changes, const at::Tensor& error,
                     const at::Tensor& riders) const;
  // Step 3: replaces `change` by that of the mean and `riders` by their sum. `means`: what step 2
  // has received.
  void Decode(const at::Tensor& means, at::Tensor change, at::Tensor riders) const;

  // What a member sends in both steps. `riders`: their number.
  int64_t BytesSent(int64_t riders) const;

 private:
  int64_t PartBytes() const;
  // Views: of a vector, of one member's part; of messages, of what is to or from one member.
  at::Tensor PartOf(const at::Tensor& vector, int member) const;
  RowCodes CodesOf(const at::Tensor& messages, int member) const;
  at::Tensor RidersOf(const at::Tensor& messages, int member) const;

  RowCodec& codec_;
  const RowFormat format_;
  const int members_;
  const int64_t rows_;  // Per part.
};

class QuantizedMean {
 public:
  // For vectors like `reference`: float [P], equal on all members of `group`, copied. `codec` and
  // `group` must outlive this.
  QuantizedMean(RowCodec& codec, RowFormat format, Group& group, const at::Tensor& reference);

  // Sets the vector that all members have in common from now on. An Average before it counts as
  // accepted.
  void SetReference(const at::Tensor& reference);

  const at::Tensor& reference() const { return reference_; }
  // Counts the references: members with equal numbers have the same one.
  int64_t reference_number() const { return reference_number_; }
  // Continues where another object of the same group was.
  void Resume(const at::Tensor& reference, int64_t number);

  // Rounding errors still to be sent; tensors of this object, zero at the start.
  struct Residuals {
    at::Tensor own;   // From this rank's changes.
    at::Tensor mean;  // From means of this rank's part.
  };
  const Residuals& residuals() const { return residuals_; }
  // Sets them to those of another object of the same group; skips undefined ones.
  void SetResiduals(const Residuals& residuals);
  // After an Average that threw, or that was not accepted: copies of the residuals before it.
  const std::optional<Residuals>& residuals_before() const { return before_; }

  // Replaces `vector` by approximately its mean, and `riders` (flat float, may be undefined) by its
  // exact sum. Returns the bytes that this rank sent.
  int64_t Average(at::Tensor vector, at::Tensor riders);
  // Makes the mean that the latest Average gave the reference. Call before the next one.
  void Accept();

 private:
  Group& group_;
  const int64_t values_;  // P.
  const MeanMessages messages_;
  at::Tensor reference_;  // Float [P].
  int64_t reference_number_ = 1;
  at::Tensor change_;    // Of all parts; after an Average: the mean's.
  Residuals residuals_;  // Of all parts; of one.
  std::optional<Residuals> before_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_QUANTIZED_MEAN_H_
