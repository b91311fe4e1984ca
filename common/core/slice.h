// Boxes of elements in tensors: what one rank holds of a tensor that several ranks hold together,
// and how the elements of one box lie in another.
#ifndef COMMON_CORE_SLICE_H_
#define COMMON_CORE_SLICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

// In each dimension, the elements from its offset on, as many as its size. A scalar's box has no
// dimensions.
struct Box {
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
};

// What a rank holds of a tensor that the ranks of a replica hold together (common/core/lanes.h).
struct Slice {
  std::vector<int64_t> global_shape;
  std::vector<int64_t> offsets;  // Of its first element.
  std::vector<int64_t> sizes;    // Without padding. A size of 0: this rank has none of the tensor.
  // Several positions may hold the very same slice; this is its number among them. Number 0 is
  // saved.
  int copy = 0;

  Box box() const { return {offsets, sizes}; }
};

// The number of elements. Requires: it is below 2^63.
int64_t ElementsOf(const std::vector<int64_t>& sizes);

// The box of all elements.
Box WholeBox(const std::vector<int64_t>& shape);

// Whether the box has the dimensions of `shape`, and all its elements are in a tensor of it.
bool IsWithin(const Box& box, const std::vector<int64_t>& shape);

// Whether the box is whole in all dimensions but the first. Requires: IsWithin.
bool IsRowRange(const Box& box, const std::vector<int64_t>& shape);

// The elements that are in both; nothing if there are none. Requires: equally many dimensions.
std::optional<Box> Intersection(const Box& a, const Box& b);

// Boxes may cut a tensor along no more dimensions.
inline constexpr size_t kMaxCutDimensions = 4;

// Why the boxes do not cover a tensor exactly once; nothing if they do. Linear in their number, but
// for sorting. Takes up to 640 bytes of memory for each. Requires: each IsWithin `shape`, which has
// no 0.
std::optional<std::string> WhyNotCovered(const std::vector<int64_t>& shape,
                                         const std::vector<Box>& boxes);

// Walks over the elements of `part` in runs that are consecutive both in an array of the elements
// of `source` and in one of `target`, in the order of `source`. The arrays are row-major. All runs
// have the same length. Positions are numbers of elements.
class RunWalk {
 public:
  // Requires: `part` has an element, and is within both.
  RunWalk(const Box& part, const Box& source, const Box& target);

  int64_t elements() const { return elements_; }  // Of each run.
  // Requires: !done().
  int64_t from() const { return from_; }  // Of the run, in `source`.
  int64_t to() const { return to_; }      // In `target`.
  bool done() const { return done_; }
  void Advance();

 private:
  int64_t elements_ = 1;
  int64_t from_ = 0;
  int64_t to_ = 0;
  bool done_ = false;
  // Of the dimensions that no run contains: sizes of the part, strides, and where the walk is.
  std::vector<int64_t> sizes_;
  std::vector<int64_t> from_strides_;
  std::vector<int64_t> to_strides_;
  std::vector<int64_t> index_;
};

}  // namespace paceline

#endif  // COMMON_CORE_SLICE_H_
