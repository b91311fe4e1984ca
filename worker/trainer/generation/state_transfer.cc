#include "worker/trainer/generation/state_transfer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/checkpoint/checksum.h"

namespace paceline {
namespace {

// Smaller tensors are packed together.
constexpr int64_t kLargeBytes = 1 << 20;
// Alignment in a packed message, enough for any type.
constexpr int64_t kAlignment = 16;

struct Packed {
  at::Tensor tensor;
  int64_t offset;
};

// A transfer's small tensors, packed, and its large ones.
struct Messages {
  std::vector<Packed> packed;
  int64_t packed_bytes = 0;
  std::vector<at::Tensor> large;
};

Messages Arrange(const std::vector<at::Tensor>& tensors, at::Device device) {
  Messages messages;
  for (const at::Tensor& tensor : tensors) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    if (bytes >= kLargeBytes && tensor.is_contiguous() && tensor.device() == device) {
      messages.large.push_back(tensor.detach());
      continue;
    }
    messages.packed.push_back({tensor.detach(), messages.packed_bytes});
    messages.packed_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return messages;
}

at::Tensor ViewOf(const at::Tensor& buffer, const Packed& one) {
  return buffer.narrow(0, one.offset, static_cast<int64_t>(one.tensor.nbytes()))
      .view(one.tensor.scalar_type())
      .view(one.tensor.sizes());
}

at::Tensor NewBuffer(const Messages& messages, at::Device device) {
  return at::empty({messages.packed_bytes}, at::TensorOptions().dtype(at::kByte).device(device));
}

int64_t ChecksumOfTensor(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu();
  const uint64_t checksum =
      ChecksumOf(absl::string_view(static_cast<const char*>(host.const_data_ptr()), host.nbytes()));
  return static_cast<int64_t>(checksum);
}

at::Tensor ChecksumsOf(const std::vector<at::Tensor>& sent, at::Device device) {
  at::Tensor checksums = at::empty({static_cast<int64_t>(sent.size())}, at::kLong);
  for (size_t i = 0; i < sent.size(); ++i) {
    checksums.mutable_data_ptr<int64_t>()[i] = ChecksumOfTensor(sent[i]);
  }
  return checksums.to(device);
}

}  // namespace

void SendTensors(Group& group, const std::vector<at::Tensor>& tensors, at::Device device, int to) {
  const at::NoGradGuard no_grad;
  const Messages messages = Arrange(tensors, device);
  std::vector<at::Tensor> sent = messages.large;
  if (messages.packed_bytes > 0) {
    const at::Tensor buffer = NewBuffer(messages, device).zero_();
    for (const Packed& one : messages.packed) ViewOf(buffer, one).copy_(one.tensor);
    sent.push_back(buffer);
  }
  for (const at::Tensor& message : sent) group.Send(message, to);
  group.Send(ChecksumsOf(sent, device), to);
}

void ReceiveTensors(Group& group, const std::vector<at::Tensor>& tensors, at::Device device,
                    int from, bool in_place) {
  const at::NoGradGuard no_grad;
  const Messages messages = Arrange(tensors, device);
  std::vector<at::Tensor> received;
  for (const at::Tensor& tensor : messages.large) {
    received.push_back(in_place ? tensor : at::empty_like(tensor));
  }
  if (messages.packed_bytes > 0) received.push_back(NewBuffer(messages, device));
  for (const at::Tensor& message : received) group.Receive(message, from);
  const at::Tensor reported = at::empty({static_cast<int64_t>(received.size())},
                                        at::TensorOptions().dtype(at::kLong).device(device));
  group.Receive(reported, from);
  if (!reported.cpu().equal(ChecksumsOf(received, at::kCPU))) {
    throw CollectiveError("receiving from a rank", "the state has changed on its way");
  }
  if (!in_place) {
    for (size_t i = 0; i < messages.large.size(); ++i) messages.large[i].copy_(received[i]);
  }
  for (const Packed& one : messages.packed) one.tensor.copy_(ViewOf(received.back(), one));
}

void SendAttachment(Group& group, const Attachments& attachments, Attachments::Scope scope,
                    at::Device device, int to) {
  const Attachment attachment = attachments.Take(scope);
  const auto size = static_cast<int64_t>(attachment.schema.size());
  const at::Tensor schema = at::empty({size}, at::kByte);
  std::memcpy(schema.mutable_data_ptr(), attachment.schema.data(), attachment.schema.size());
  SendTensors(group, {at::full({}, size, at::kLong)}, device, to);
  SendTensors(group, {schema}, device, to);
  if (attachment.tensors.empty()) return;
  // Like those that the receiver allocates: an optimizer's state has its parameter's layout.
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& tensor : attachment.tensors) tensors.push_back(tensor.contiguous());
  SendTensors(group, tensors, device, to);
}

Attachment ReceiveAttachment(Group& group, const Attachments& attachments, Attachments::Scope scope,
                             at::Device device, int from) {
  const at::Tensor size = at::empty({}, at::kLong);
  ReceiveTensors(group, {size}, device, from, /*in_place=*/true);
  const at::Tensor schema = at::empty({size.item<int64_t>()}, at::kByte);
  ReceiveTensors(group, {schema}, device, from, /*in_place=*/true);
  Attachment attachment;
  attachment.schema.assign(static_cast<const char*>(schema.const_data_ptr()), schema.nbytes());
  attachment.tensors = attachments.Allocate(scope, attachment.schema);
  if (!attachment.tensors.empty()) {
    ReceiveTensors(group, attachment.tensors, device, from, /*in_place=*/true);
  }
  return attachment;
}

void CopyOptimizerFromFirst(Group& group, const Optimizer& optimizer, Attachments* attachments,
                            at::Device device, int rank) {
  if (attachments == nullptr) return group.CopyFromFirst(optimizer.State());
  constexpr auto kShared = Attachments::Scope::kShared;
  if (rank == 0) {
    for (int to = 1; to < group.size(); ++to) {
      SendAttachment(group, *attachments, kShared, device, to);
    }
  } else {
    attachments->Put(kShared, ReceiveAttachment(group, *attachments, kShared, device, /*from=*/0));
  }
}

}  // namespace paceline
