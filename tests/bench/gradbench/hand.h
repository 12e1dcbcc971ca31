// GradBench's `ht`: the residuals of a model of a hand, whose points were seen. The plain C++ of it
// is Hand in ../cpp_tools/programs.h.
#pragma once

#include <vector>

#include <stave/stave.h>

namespace gradbench {

using namespace stave;

/// A hand: a wrist, five fingers of four bones, and a forearm, in this order.
struct Hand {
  std::vector<Index> parents;  ///< of each bone, an earlier bone; -1: none
  /// [bones, 4, 4]: places relative to the parents, and inverse absolute places.
  Tensor relatives, inverses;
  Tensor corners;  ///< [4, vertices], the last row is 1
  Tensor weights;  ///< [bones, vertices]: the shares of the bones in a vertex
  bool is_mirrored = false;
  Tensor points;  ///< [3, seen]: the points that were seen
  /// [seen]: the vertex of each point; or [3, seen]: the vertices of the triangle where it lies.
  Tensor numbers;
};

/// Rotations by angles about the axes x, y and z, in this order: [n, 3] -> [n, 3, 3].
inline Tensor rotations(const Tensor& angles) {
  const Tensor c = cos(angles), s = sin(angles);
  const auto [cx, cy, cz] = unstack<3>(c, 1);
  const auto [sx, sy, sz] = unstack<3>(s, 1);
  const Tensor rows = stack({cy * cz, -cx * sz + sx * sy * cz, sx * sz + cx * sy * cz, cy * sz, cx * cz + sx * sy * sz,
                             -sx * cz + cx * sy * sz, -sy, sx * cy, cx * cy},
                            1);
  return reshape(rows, {angles.shape(0), 3, 3});
}

/// The rotation about an axis by its length, both in `turn` [3], as a matrix [3, 3]; the identity
/// for less than 1e-4.
inline Tensor rotation_about(const Tensor& turn) {
  const Tensor angle = norm(turn);
  if (angle < 1e-4) return eye(3, float64);
  const auto [x, y, z] = unstack<3>(turn / angle);
  const Tensor c = cos(angle), s = sin(angle), d = 1 - c;
  const Tensor rows = stack({x * x + (1 - x * x) * c, x * y * d - z * s, x * z * d + y * s,  //
                             x * y * d + z * s, y * y + (1 - y * y) * c, y * z * d - x * s,  //
                             x * z * d - y * s, y * z * d + x * s, z * z + (1 - z * z) * c});
  return reshape(rows, {3, 3});
}

/// The angles of the bones, [22, 3], by 20 of the parameters. The first bone of a finger is stiff,
/// the second one bends about the axes x and z, the two after it about x.
inline Tensor bone_angles(const Tensor& parameters) {
  const Tensor of_fingers = reshape(parameters, {5, 4}), zero = zeros({5, 1}, float64);
  const auto about = [&](Index x) { return of_fingers(slice(), slice(x, x + 1)); };
  const Tensor fingers = stack({zeros({5, 3}, float64), concat({about(0), zero, about(1)}, 1),
                                concat({about(2), zero, zero}, 1), concat({about(3), zero, zero}, 1)},
                               1);
  const Tensor still = zeros({1, 3}, float64);
  return concat({still, reshape(fingers, {20, 3}), still});
}

/// Returns the places of vertices, [3, n], by their numbers, [n], and 26 parameters: the rotation
/// of the whole hand, its position, and four angles of each finger.
inline Tensor hand_vertices(const Hand& hand, const Tensor& parameters, const Tensor& numbers) {
  const Tensor turned =
      matmul(hand.relatives(slice(), slice(), slice(0, 3)), rotations(bone_angles(parameters(slice(6, none)))));
  const Tensor relatives = concat({turned, hand.relatives(slice(), slice(), slice(3, 4))}, 2);
  std::vector<Tensor> absolutes;
  for (const Index parent : hand.parents) {
    const Tensor relative = relatives(static_cast<Index>(absolutes.size()));
    absolutes.push_back(parent < 0 ? relative : matmul(absolutes[static_cast<std::size_t>(parent)], relative));
  }
  const Tensor transforms = matmul(stack(absolutes), hand.inverses)(slice(), slice(0, 3));
  // The sum over the bones of weight * transform * corner, as one product.
  const Tensor corners = take(hand.corners, numbers, 1) * expand_dims(take(hand.weights, numbers, 1), 1);
  const Index terms = corners.shape(0) * corners.shape(1);
  const Tensor rows = reshape(moveaxis(transforms, {1}, {0}), {3, terms});
  Tensor skin = matmul(rows, reshape(corners, {terms, -1}));
  if (hand.is_mirrored) skin = concat({-skin(slice(0, 1)), skin(slice(1, none))});
  return matmul(rotation_about(parameters(slice(0, 3))), skin) + expand_dims(parameters(slice(3, 6)), 1);
}

/// Returns the points minus their vertices, [3, seen].
inline Tensor hand_residuals(const Hand& hand, const Tensor& parameters) {
  return hand.points - hand_vertices(hand, parameters, hand.numbers);
}

/// Returns the points minus their places in triangles, [3, seen]. `places`, [2, seen], are the
/// shares of the first two vertices.
inline Tensor hand_residuals(const Hand& hand, const Tensor& parameters, const Tensor& places) {
  const Tensor corners = hand_vertices(hand, parameters, reshape(hand.numbers, {-1}));
  const auto [a, b, c] = unstack<3>(reshape(corners, {3, 3, -1}), 1);
  return hand.points - (places(0) * a + places(1) * b + (1 - places(0) - places(1)) * c);
}

}  // namespace gradbench
