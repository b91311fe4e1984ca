// The named parameters and buffers of a network: what keeping ranks together, saving and
// rendezvous need to know of it.
//
// Names and order of parameters are those of the same network in Python, so that weights can be
// exchanged both ways.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_MODEL_MODEL_TENSORS_H_
#define WORKER_TRAINER_MODEL_MODEL_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "common/core/slice.h"
#include "worker/trainer/core/model_flops.h"

namespace paceline {

class Group;

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  bool frozen = false;  // A buffer that never changes.
  // Where `tensor` is what this rank has of a sharded one.
  std::optional<Slice> slice = {};
};

// Another name of a parameter or buffer, for example of a head that is the embedding.
struct TiedName {
  std::string name;
  std::string first;  // Its name as parameter or buffer.
};

// Drops the names.
std::vector<at::Tensor> TensorsOf(const std::vector<NamedTensor>& named);

class ModelTensors {
 public:
  virtual ~ModelTensors() = default;
  ModelTensors(const ModelTensors&) = delete;
  ModelTensors& operator=(const ModelTensors&) = delete;

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }
  // Further names of tensors that have several; each is trained once, under its first name.
  const std::vector<TiedName>& tied() const { return tied_; }
  at::Device device() const { return device_; }

  // Operations of forward and backward pass per sample, by formula, as of float32; none: there is
  // no formula.
  virtual Flops FlopsPerSample() const { return {}; }
  // The same as counted in a step of this process; none: they were not.
  const Flops& counted_flops() const { return counted_flops_; }
  void SetCountedFlops(const Flops& per_sample) { counted_flops_ = per_sample; }

  // Sets the ranks over whose batches synchronised normalisation takes its statistics in the next
  // passes, in which each of them has samples. Null (at the start): this rank's batch alone.
  virtual void SetActiveGroup(Group* /*group*/) {}

 protected:
  explicit ModelTensors(at::Device device) : device_(device) {}

  // Moves `initial` to the device, registers it and returns the registered tensor. One that is
  // registered already gets another name.
  at::Tensor AddParameter(std::string name, at::Tensor initial);
  at::Tensor AddBuffer(std::string name, at::Tensor initial, bool frozen = false);
  // Says which slice a parameter or buffer is, of the sizes that it has. Again when this rank takes
  // another position in its replica.
  void SetSlice(const std::string& name, Slice slice);

 private:
  at::Tensor Add(NamedTensor named, std::vector<NamedTensor>* list);

  const at::Device device_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  std::vector<TiedName> tied_;
  Flops counted_flops_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_MODEL_TENSORS_H_
