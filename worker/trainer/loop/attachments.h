// The state of a training that belongs to somebody else's loop: of its optimizer, schedulers,
// loaders, random numbers. To the engine it is tensors and a text that says what they are.
#ifndef WORKER_TRAINER_LOOP_ATTACHMENTS_H_
#define WORKER_TRAINER_LOOP_ATTACHMENTS_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "common/core/slice.h"

namespace paceline {

struct Attachment {
  std::string schema;               // Opaque, not empty; Allocate understands it.
  std::vector<at::Tensor> tensors;  // In the schema's order, on any device.
};

// Thread-compatible: called by the training thread between two calls of its owner's. Exceptions of
// the owner's pass through.
class Attachments {
 public:
  enum class Scope {
    kShared,  // Like the optimizer's state: equal on ranks that share gradients.
    kOwn,     // Like buffers and random numbers: each rank has its own.
  };

  virtual ~Attachments() = default;

  // What is attached, without its values: equal on all ranks of a job.
  virtual std::string Names() const = 0;

  // The present state. The tensors share the memory of the originals.
  virtual Attachment Take(Scope scope) const = 0;
  // Contiguous tensors into which those of an attachment with this schema fit, whatever the layout
  // of the originals; their values are undefined. Throws c10::ValueError when the schema cannot be
  // read.
  virtual std::vector<at::Tensor> Allocate(Scope scope, const std::string& schema) const = 0;
  // For each tensor of an attachment with this schema, which slice of a sharded one it is on this
  // rank; none where it is no slice. Empty: none of them is. A tensor that is no slice and has
  // dimensions belongs to its rank where a model is sharded: it can only be restored with as many
  // shards. Tensors that Allocate returns have the slices' sizes.
  virtual std::vector<std::optional<Slice>> Slices(Scope /*scope*/,
                                                   const std::string& /*schema*/) const {
    return {};
  }
  // Replaces the state. Throws c10::ValueError when it does not fit what is attached.
  virtual void Put(Scope scope, const Attachment& attachment) = 0;

  // Copies what a step may change before its update is done; called before each step that may have
  // to be undone. Undo restores the last copy.
  virtual void Keep() = 0;
  virtual void Undo() = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_ATTACHMENTS_H_
