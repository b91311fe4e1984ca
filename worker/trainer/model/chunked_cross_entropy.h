// The loss of a language model from its last hidden states, a chunk of tokens at a time: only one
// chunk's logits exist at once. Of a large vocabulary, the logits of a whole batch take more memory
// than any other activation.
//
// The gradients are computed together with the loss, from the same logits, so nothing is computed
// twice. A sum over chunks rounds differently from one over all tokens: results are close to those
// of at::cross_entropy_loss, not bit-equal.
#ifndef WORKER_TRAINER_MODEL_CHUNKED_CROSS_ENTROPY_H_
#define WORKER_TRAINER_MODEL_CHUNKED_CROSS_ENTROPY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace paceline {

// The mean cross-entropy of hidden [tokens, dim] times the transpose of head [vocab_size, dim],
// against `targets` [tokens] (int64; -100 is ignored, as by at::cross_entropy_loss).
//
// Matrix products are computed in `product_type`. Softmax, loss and sums over chunks are float, or
// double for double tensors; so is the result, a scalar. The gradients of `hidden` and `head` are
// kept between forward and backward pass. There can be one backward pass, without second
// derivatives. On the CPU the logits, if they are floats or bfloat16, become their gradients in
// place; else a chunk's log-probabilities exist beside them. Requires: chunk_tokens >= 1. Torch's
// exceptions pass through.
at::Tensor ChunkedCrossEntropy(const at::Tensor& hidden, const at::Tensor& head,
                               const at::Tensor& targets, int64_t chunk_tokens,
                               at::ScalarType product_type);

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_CHUNKED_CROSS_ENTROPY_H_
