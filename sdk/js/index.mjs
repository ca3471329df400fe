import protocol from './index.js';

export const { NookProtocol } = protocol;
